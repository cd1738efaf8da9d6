# SPDX-License-Identifier: Apache-2.0
"""A store in etcd, for a control plane that outgrows one machine.

`store` implements the contract of `rdd.store.contract` on etcd's transactions, revisions,
watches and leases; `follower` keeps the one watch that delivers what was committed,
by itself or by others; `client` makes the calls, with failover between endpoints;
`requests` has the messages; `address` parses `etcd://…`.
"""
