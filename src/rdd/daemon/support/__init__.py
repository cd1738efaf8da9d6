# SPDX-License-Identifier: Apache-2.0
"""Support bundles and the redaction of secrets in them."""
