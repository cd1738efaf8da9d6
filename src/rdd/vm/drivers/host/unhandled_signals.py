# SPDX-License-Identifier: Apache-2.0
"""Containers that cannot hear that they are to stop.

A container's first process gets no signal it has no handler for; the kernel keeps it from the
first process of a namespace. So a container that runs `sleep`, or a shell script, or a server
without a handler ignores its stop signal, and the engine waits ten seconds before it kills it.
Whether there is a handler can be read in /proc: who has none is killed at once, with the same
outcome as later. It is done after the engine was told to stop, so that it knows the containers
as running and starts those with a restart policy the next time.
"""

import contextlib
import json
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rdd.vm.drivers.host import docker_api

_DEFAULT_SIGNAL = "SIGTERM"
_MOST_CONTAINERS = 500


@dataclass(frozen=True, slots=True)
class Process:
    """What /proc tells about a process."""

    pid: int
    parent: int
    pids: tuple[int, ...]
    """Its ids, from our namespace to its innermost."""
    caught: int
    """The signals it has handlers for, one bit each."""

    def hears(self, number: int) -> bool:
        """Whether a signal ends it or reaches its handler."""
        return self.pids[-1] != 1 or bool(self.caught >> (number - 1) & 1)


async def stop_signals(docker_socket: Path) -> dict[int, int]:
    """The stop signal of each running container by its process id inside. Raises nothing."""
    found: dict[int, int] = {}
    with contextlib.suppress(OSError, docker_api.BadAnswer, ValueError, KeyError, TypeError):
        running = json.loads(await docker_api.get(docker_socket, "/containers/json"))
        for container in running[:_MOST_CONTAINERS]:
            answer = await docker_api.get(docker_socket, f"/containers/{container['Id']}/json")
            details = json.loads(answer)
            number = signal_number(details["Config"].get("StopSignal") or _DEFAULT_SIGNAL)
            if number is not None:
                found[int(details["State"]["Pid"])] = number
    return found


def signal_number(name: str) -> int | None:
    """The number of a signal as images name it: `SIGTERM`, `TERM`, `15`, `RTMIN+3`."""
    name = name.upper()
    if name.isdigit():
        return int(name)
    name, _, offset = name.partition("+")
    name = name if name.startswith("SIG") else f"SIG{name}"
    try:
        return int(signal.Signals[name]) + int(offset or 0)
    except (KeyError, ValueError):
        return None


def kill_containers_without_handler(holder: int, stop: Mapping[int, int]) -> int:
    """Kill the containers below `holder` that do not hear their stop signal; how many."""
    count = 0
    for process in first_processes(holder, processes()):
        number = stop.get(process.pids[-2])
        if number is not None and not process.hears(number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
                count += 1
    return count


def first_processes(holder: int, every: Iterable[Process]) -> list[Process]:
    """The first processes of containers: children of the shims, which the holder adopted."""
    members = list(every)
    shims = {process.pid for process in members if process.parent == holder}
    depth = next((len(process.pids) for process in members if process.pid == holder), 0)
    return [p for p in members if p.parent in shims and len(p.pids) > depth and p.pids[-1] == 1]


def processes() -> Iterator[Process]:
    """Every process of this machine."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, KeyError, ValueError):
                yield parse(int(entry.name), Path(f"/proc/{entry.name}/status").read_text())


def parse(pid: int, status: str) -> Process:
    """A process from its `status` file. Raises KeyError, ValueError."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    pids = tuple(int(word) for word in fields["NSpid"].split())
    return Process(pid, int(fields["PPid"]), pids, int(fields["SigCgt"], 16))
