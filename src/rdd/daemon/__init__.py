# SPDX-License-Identifier: Apache-2.0
"""The daemon: assembles and runs the parts of rdd."""
