# SPDX-License-Identifier: Apache-2.0
"""Limits of the wire; `rdd.apiserver.fairness` limits the requests in flight."""

MAX_BODY_BYTES = 3 * 1024 * 1024
