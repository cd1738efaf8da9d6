# SPDX-License-Identifier: Apache-2.0
"""Virtual machines as they are seen on disk, without asking anybody.

Each one is run by a host agent, whose process id is in `ha.pid` of the machine's
directory. Agents outlive a daemon that crashed.
"""

from pathlib import Path

from rdd.host.processes import identity

_AGENT_PID = "ha.pid"


def is_any_vm_running(lima_home: Path) -> bool:
    """Whether the process of any host agent below LIMA_HOME lives."""
    for path in lima_home.glob(f"*/{_AGENT_PID}"):
        try:
            if identity(int(path.read_text())) is not None:
                return True
        except (OSError, ValueError):
            continue
    return False
