# SPDX-License-Identifier: Apache-2.0
"""The mock: objects as if a container engine ran, for those who develop against the API."""
