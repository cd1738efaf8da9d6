# SPDX-License-Identifier: Apache-2.0
"""The disk of a running guest: its space, its growth, and a full disk of this computer."""
