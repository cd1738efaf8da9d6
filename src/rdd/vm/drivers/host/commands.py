# SPDX-License-Identifier: Apache-2.0
"""Short programs of the system that are run for their effect: `ip`, `iptables`.

They run in a thread, since the firewall's lock may make them wait; the agent answers meanwhile.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rdd.host.errors import HostError

_TIMEOUT_S = 20.0
_DAEMON_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def search_path(environment: Mapping[str, str]) -> str:
    """PATH, and where systems keep programs for root."""
    return os.pathsep.join([environment.get("PATH", "/usr/bin:/bin"), *_DAEMON_PATH])


def find(name: str, environment: Mapping[str, str]) -> Path | None:
    """A program of the system; None if it is not installed."""
    found = shutil.which(name, path=search_path(environment))
    return Path(found) if found else None


def run_now(*command: str, text: str = "") -> str:
    """Run a program with a text as its input; what it prints. Raises HostError."""
    environment = {"PATH": search_path(os.environ), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            env=environment,
        )
    except FileNotFoundError:
        raise HostError(f'the program "{command[0]}" is not installed') from None
    except subprocess.TimeoutExpired:
        raise HostError(f"{command[0]} did not end within {_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise HostError(f"{' '.join(command)}: {lines[0]}")
    return done.stdout


async def run(*command: str, text: str = "") -> str:
    """The same without blocking the loop."""
    return await asyncio.to_thread(run_now, *command, text=text)
