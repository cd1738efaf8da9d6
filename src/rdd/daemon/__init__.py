# SPDX-License-Identifier: Apache-2.0
"""The daemon: where the parts of rdd are put together and run."""
