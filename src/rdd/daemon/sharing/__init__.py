# SPDX-License-Identifier: Apache-2.0
"""Control planes that share a store in etcd, or serve other machines.

`parts` has what the stages of the control plane ask for; `etcd` opens and copies the store;
`identity` shares keys and tokens; `listening` serves beyond loopback.
"""
