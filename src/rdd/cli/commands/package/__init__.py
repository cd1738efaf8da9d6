# SPDX-License-Identifier: Apache-2.0
"""`rdd package`: everything that an instance needs as one signed file."""
