# SPDX-License-Identifier: Apache-2.0
"""Commands for containers, images and volumes."""
