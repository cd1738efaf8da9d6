# SPDX-License-Identifier: Apache-2.0
"""The commands, one module per verb; folders are groups of commands."""
