# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds: one module per group with the strategies, and the catalog of all kinds."""
