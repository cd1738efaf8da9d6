# SPDX-License-Identifier: Apache-2.0
"""The mock: objects as of a running container engine, to develop against the API."""
