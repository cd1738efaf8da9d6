# SPDX-License-Identifier: Apache-2.0
"""OpenAPI documents of everything the server serves, built from the same definitions."""
