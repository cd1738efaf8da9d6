# SPDX-License-Identifier: Apache-2.0
"""Commands for the control plane itself (`rdd service`)."""
