# SPDX-License-Identifier: Apache-2.0
"""Ports and sockets of the guest that appear on this machine.

`rules` decides, `forwarder` keeps what is open in step with what listens in the guest,
`streams`, `datagrams` and `sockets` carry the bytes for drivers that do it themselves.
"""
