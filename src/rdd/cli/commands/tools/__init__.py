# SPDX-License-Identifier: Apache-2.0
"""`rdd cache`: the files that rdd has fetched, shared by all instances of the user."""
