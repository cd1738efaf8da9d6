# SPDX-License-Identifier: Apache-2.0
"""Controllers of the group rdd.rancherdesktop.io."""
