# SPDX-License-Identifier: Apache-2.0
"""Events of shared files: watched on this computer, repeated in the guest."""
