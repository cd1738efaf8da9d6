# SPDX-License-Identifier: Apache-2.0
"""Validation and defaulting of CustomResourceDefinition objects."""
