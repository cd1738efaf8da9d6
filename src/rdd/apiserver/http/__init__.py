# SPDX-License-Identifier: Apache-2.0
"""HTTP: the listener, requests, bodies, content negotiation, responses."""
