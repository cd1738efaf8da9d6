# SPDX-License-Identifier: Apache-2.0
"""The in-memory state: cache of encoded objects, lists and watch fan-out."""
