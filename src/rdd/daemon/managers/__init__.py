# SPDX-License-Identifier: Apache-2.0
"""Controller managers: the one of the daemon and those of external programs."""
