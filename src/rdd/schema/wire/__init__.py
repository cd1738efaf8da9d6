# SPDX-License-Identifier: Apache-2.0
"""Encodings of objects other than JSON."""
