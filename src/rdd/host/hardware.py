# SPDX-License-Identifier: Apache-2.0
"""Processors and memory of the computer.

Both are those of the whole computer. Limits of a control group and the affinity of this
process are ignored: virtual machines do not run in the daemon's control group, and users
expect to see their computer.
"""

import os


def cpus() -> int:
    """Return the number of logical processors that are online."""
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """Return the memory that the operating system can use."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
