# SPDX-License-Identifier: Apache-2.0
"""Programs for root, such as `ip` and `iptables`: search path and synchronous execution.

They may block on the firewall's lock, so callers of `output_of` run in a thread.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from rdd.host import commands

_TIMEOUT_S = 20.0
_DAEMON_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path(environment: Mapping[str, str]) -> str:
    return commands.search_path(environment, also=_DAEMON_PATH)


def find(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return the path of a program; None if it is not installed."""
    return commands.find(name, environment, also=_DAEMON_PATH)


def output_of(*command: str, text: str = "") -> str:
    """Run a program with `text` as its input; return its output. Raises HostError."""
    environment = {"PATH": search_path(os.environ), "LC_ALL": "C"}
    return commands.run_blocking(
        *command, text=text, timeout_s=_TIMEOUT_S, environment=environment
    ).checked()
