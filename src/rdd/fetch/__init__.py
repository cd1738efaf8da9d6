# SPDX-License-Identifier: Apache-2.0
"""Everything that rdd fetches: one cache by content, shared by the instances of a user.

`fetch` turns a location and a digest into a file of the cache: `download` transfers it
(`network` has mirror, proxies and authorities, `failures` the causes), `cache` stores it by
the digest of its content, `expansion` decompresses disk images. `checkout` hands a cached file
out, `eviction` removes what is no longer needed, `transport` moves entries between machines.

Guest images, resources (`Resource` and `Checkout` objects) and `rdd cache` use it. It knows
nothing of Kubernetes and can be used without a daemon.
"""
