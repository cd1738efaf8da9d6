# SPDX-License-Identifier: Apache-2.0
"""`rdd disk`: where the disk space is, and how to get it back."""
