# SPDX-License-Identifier: Apache-2.0
"""What the machine has: processors and memory.

Both are those of the whole machine. Limits of a control group or the affinity of
this process are not taken into account: virtual machines are no part of the
daemon, and what users are shown is their computer.
"""

import os


def cpus() -> int:
    """The logical processors that are online."""
    return os.cpu_count() or 1


def memory_bytes() -> int:
    """The memory the operating system can use."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
