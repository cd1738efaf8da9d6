# SPDX-License-Identifier: Apache-2.0
"""Structural schemas: pruning, defaulting, validation, list and map semantics, OpenAPI."""
