# SPDX-License-Identifier: Apache-2.0
"""What every layer may import: no I/O, nothing of the product."""
