# SPDX-License-Identifier: Apache-2.0
"""The audit log: who did what, when, and with which result."""
