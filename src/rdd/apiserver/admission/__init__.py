# SPDX-License-Identifier: Apache-2.0
"""Admission: what may change or refuse a write after it was authorised."""
