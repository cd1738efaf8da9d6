# SPDX-License-Identifier: Apache-2.0
"""Requests that a controller answers, in this process or through a proxy."""
