# SPDX-License-Identifier: Apache-2.0
"""Controller managers: the one inside the daemon and those in processes of their own."""
