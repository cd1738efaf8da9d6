# SPDX-License-Identifier: Apache-2.0
"""The state in memory: the cache of encoded objects, lists and watch fan-out."""
