# SPDX-License-Identifier: Apache-2.0
"""The built-in kinds: a module per group with their strategies, and the catalog of all."""
