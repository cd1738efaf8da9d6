# SPDX-License-Identifier: Apache-2.0
"""Patches the built-in kubectl computes, for client-side apply and edit."""
