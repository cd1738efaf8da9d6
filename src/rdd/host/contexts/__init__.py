# SPDX-License-Identifier: Apache-2.0
"""Docker's and kubectl's contexts in the files of the user.

These files belong to the user: only rdd's own entries are changed, atomically, and all other
bytes stay as they are. The health of the current context decides whether rdd's replaces it.
"""
