# SPDX-License-Identifier: Apache-2.0
"""Requests that a controller serves, in this process or through a proxy."""
