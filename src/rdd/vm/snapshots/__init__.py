# SPDX-License-Identifier: Apache-2.0
"""Snapshots on disk: where they are, how machines are saved and restored, archives."""
