# SPDX-License-Identifier: Apache-2.0
"""Admission: plugins that modify or reject a write after authorisation."""
