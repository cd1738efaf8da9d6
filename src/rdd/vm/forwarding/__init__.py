# SPDX-License-Identifier: Apache-2.0
"""Forwarding of ports and sockets from the guest to this host.

`rules` maps listeners to forwards, `forwarder` keeps the forwards in sync with the listeners,
`streams`, `datagrams` and `sockets` relay the bytes for drivers without a relay of their own.
"""
