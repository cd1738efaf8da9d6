# SPDX-License-Identifier: Apache-2.0
"""Storage: a revisioned key-value log.

`contract` is the interface and the only module the API server depends on. The
daemon runs on `sqlite`, or on `etcd` where several servers share their objects;
tests and short-lived servers run on `memory`. One test suite checks all three
against the contract. The other modules are parts of the stores that keep their
own revisions: `revisioned` is common to `sqlite` and `memory`, `index` decides
commits, `retention` and `expiry` limit what is kept, and `sqlite/writer` and
`sqlite/reader` are the two threads that access the file.
`rdd.daemon.control_plane.open_store` selects the store.
"""
