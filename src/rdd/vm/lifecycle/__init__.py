# SPDX-License-Identifier: Apache-2.0
"""The life cycle of one machine: create, start, adopt, monitor, stop."""
