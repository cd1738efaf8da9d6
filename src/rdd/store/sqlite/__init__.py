# SPDX-License-Identifier: Apache-2.0
"""The store in SQLite: one writer thread with group commit."""
