# SPDX-License-Identifier: Apache-2.0
"""Cost over the number of objects: from a thousand to a million ConfigMaps.

fill        writes objects into the store of a stopped server
probe       the gap of /livez, seen from a process of its own
size        everything that is measured at one number of objects
many        1,000 CRDs, 2,000 watchers
chart       table and plot for docs/performance.md
"""
