# SPDX-License-Identifier: Apache-2.0
"""Killing the processes of a machine.

Only processes with a recorded identity are killed, together with the process group they lead:
agents and drivers have groups of their own, so this includes the helpers they started.
"""

import asyncio
import os
import signal
from collections.abc import Iterable

from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.processes import Identity, is_alive, send_signal


def kill_group(process: Identity) -> None:
    """Send SIGKILL to a process and to the group it leads. Raises HostError."""
    try:
        is_leader = os.getpgid(process.pid) == process.pid
    except ProcessLookupError:
        return
    # The group first, and only while its leader is alive: afterwards the number may be reused.
    if is_leader and is_alive(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise HostError.from_os(f"kill process group {process.pid}", error) from error
    send_signal(process, signal.SIGKILL)


async def kill_all(processes: Iterable[Identity | None], *, timeout_s: float) -> list[str]:
    """Kill processes and wait; return an error for each that still runs after `timeout_s`."""
    targets = [process for process in processes if process is not None]
    problems = []
    for process in targets:
        try:
            kill_group(process)
        except HostError as error:
            problems.append(str(error))
    ended = await asyncio.gather(*(ended_within(process, timeout_s) for process in targets))
    problems += [
        f"process {process.pid} still runs {timeout_s:g} s after SIGKILL"
        for process, has_ended in zip(targets, ended, strict=True)
        if not has_ended
    ]
    return problems
