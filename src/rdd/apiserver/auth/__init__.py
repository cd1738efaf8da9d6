# SPDX-License-Identifier: Apache-2.0
"""Authentication, authorisation, certificates and tokens."""
