# SPDX-License-Identifier: Apache-2.0
"""Patches of client-side apply and edit."""
