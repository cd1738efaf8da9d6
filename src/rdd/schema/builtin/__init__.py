# SPDX-License-Identifier: Apache-2.0
"""The shapes of the built-in kinds, and what is derived from them.

The shapes are written in one notation (see notation.py), a file per API group.
Decoding (typed.py), schema nodes (nodes.py) and OpenAPI definitions (openapi_definitions.py) are
derived from them when first needed; field_numbers.py adds what only protobuf needs. How the
server treats a kind is in `rdd.apiserver.kinds`.
"""
