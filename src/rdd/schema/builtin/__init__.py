# SPDX-License-Identifier: Apache-2.0
"""The shapes of the built-in kinds, and what is derived from them.

The shapes are written in one notation (see notation.py), a file per API group.
Decoding (`rdd.schema.builtin.typed`), schema nodes (nodes.py) and OpenAPI definitions
(definitions.py) are derived from them when first needed.
"""
