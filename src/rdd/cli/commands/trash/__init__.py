# SPDX-License-Identifier: Apache-2.0
"""Commands for what was deleted: `rdd trash`."""
