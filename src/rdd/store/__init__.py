# SPDX-License-Identifier: Apache-2.0
"""Storage: a revisioned key-value log.

`contract` is the interface and the only module the API server depends on. The
daemon runs on `sqlite`; tests and short-lived servers run on `memory`; one test
suite checks both against the contract. The other modules are their parts:
`revisioned` is common to both, `index` decides commits, `retention` and `expiry`
limit what is kept, and `sqlite/writer` and `sqlite/reader` are the two threads
that access the file.
"""
