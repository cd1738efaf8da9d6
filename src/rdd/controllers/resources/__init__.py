# SPDX-License-Identifier: Apache-2.0
"""Controllers of what rdd fetches: Resources and Checkouts."""
