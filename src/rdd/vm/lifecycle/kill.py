# SPDX-License-Identifier: Apache-2.0
"""Ending the processes of a machine by force.

Only processes that are known by identity, and their groups if they lead one: agents and
drivers have groups of their own, so helpers they started go with them.
"""

import asyncio
import os
import signal
from collections.abc import Iterable

from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.processes import Identity, is_alive, send_signal


def kill_group(process: Identity) -> None:
    """Send SIGKILL to a process and to its group, if that is its own. Raises HostError."""
    try:
        leads = os.getpgid(process.pid) == process.pid
    except ProcessLookupError:
        return
    # The group goes first, and only while its leader lives: afterwards its number is anybody's.
    if leads and is_alive(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise HostError.from_os(f"kill process group {process.pid}", error) from error
    send_signal(process, signal.SIGKILL)


async def kill_all(processes: Iterable[Identity | None], *, timeout_s: float) -> list[str]:
    """Kill and wait; what still runs after `timeout_s`, in words."""
    living = [process for process in processes if process is not None]
    problems = []
    for process in living:
        try:
            kill_group(process)
        except HostError as error:
            problems.append(str(error))
    ended = await asyncio.gather(*(ended_within(process, timeout_s) for process in living))
    problems += [
        f"process {process.pid} still runs {timeout_s:g} s after SIGKILL"
        for process, has_ended in zip(living, ended, strict=True)
        if not has_ended
    ]
    return problems
