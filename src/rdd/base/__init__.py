# SPDX-License-Identifier: Apache-2.0
"""Leaf modules that every layer may import: no I/O, nothing specific to the product."""
