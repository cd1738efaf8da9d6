# SPDX-License-Identifier: Apache-2.0
"""The API server: one pipeline for built-in kinds and custom resources."""
