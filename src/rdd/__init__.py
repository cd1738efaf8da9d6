# SPDX-License-Identifier: Apache-2.0
"""rdd: the control plane of a container desktop.

This package imports nothing of its own: every `rdd` call pays for what is
imported here, so the parts are reached through their own modules.
"""

__version__ = "0.2.0.dev0"
