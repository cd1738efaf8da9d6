# SPDX-License-Identifier: Apache-2.0
"""Deployment profiles in the API server: `admission` enforces locks on writes."""
