# SPDX-License-Identifier: Apache-2.0
"""A small operator: kind, controller, program."""
