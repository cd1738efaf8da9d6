# SPDX-License-Identifier: Apache-2.0
"""Output of the built-in kubectl: tables, templates, descriptions."""
