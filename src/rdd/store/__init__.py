# SPDX-License-Identifier: Apache-2.0
"""Storage: a revisioned key-value log with watch.

`types` is the contract and the only module the API server needs to know.
`sqlite` is what the daemon runs on, `memory` what tests and throw-away servers
run on; one suite holds both to the contract. The rest are parts of them:
`index` decides writes, `writer` and `reader` are the two threads at the file,
`watch` tells who listens, `compaction` and `ttl` forget.
"""
