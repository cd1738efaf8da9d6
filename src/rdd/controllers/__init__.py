# SPDX-License-Identifier: Apache-2.0
"""Controllers: they watch objects through the API and reconcile the host with them."""
