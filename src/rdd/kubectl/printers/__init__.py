# SPDX-License-Identifier: Apache-2.0
"""Output formats of the built-in kubectl: tables, templates, descriptions."""
