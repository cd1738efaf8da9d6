# SPDX-License-Identifier: Apache-2.0
"""Programs for root, such as `ip` and `iptables`: in which directories they are, and run at once.

The firewall's lock may make them wait, so what calls `output_of` runs in a thread.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from rdd.host import commands

_TIMEOUT_S = 20.0
_DAEMON_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path(environment: Mapping[str, str]) -> str:
    """PATH, and where systems keep programs for root."""
    return commands.search_path(environment, also=_DAEMON_PATH)


def find(name: str, environment: Mapping[str, str]) -> Path | None:
    """A program of the system; None if it is not installed."""
    return commands.find(name, environment, also=_DAEMON_PATH)


def output_of(*command: str, text: str = "") -> str:
    """Run a program with a text as its input; what it prints. Raises HostError."""
    environment = {"PATH": search_path(os.environ), "LC_ALL": "C"}
    return commands.run_blocking(
        *command, text=text, timeout_s=_TIMEOUT_S, environment=environment
    ).checked()
