# SPDX-License-Identifier: Apache-2.0
"""Non-resource endpoints: discovery, OpenAPI, health, metrics, version."""
