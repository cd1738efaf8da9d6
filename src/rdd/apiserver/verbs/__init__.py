# SPDX-License-Identifier: Apache-2.0
"""One module per verb, and the write path they share."""
