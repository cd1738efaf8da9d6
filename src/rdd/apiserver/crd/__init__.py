# SPDX-License-Identifier: Apache-2.0
"""Custom resources: the life cycle of definitions and the resources they define."""
