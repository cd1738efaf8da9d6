# SPDX-License-Identifier: Apache-2.0
"""Containers without a handler for their stop signal.

The kernel does not deliver signals without a handler to the first process of a namespace. So
a container that runs `sleep`, a shell script or a server without a signal handler ignores its
stop signal, and the engine kills it after ten seconds. /proc shows which signals a process
handles: containers without a handler are killed at once, with the same outcome as later. This
happens after the engine has received its stop signal, so that the engine records the
containers as running and starts those with a restart policy the next time.
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
_MAX_CONTAINERS = 500


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """The status of a process in /proc."""

    pid: int
    parent: int
    pids: tuple[int, ...]
    """Its pids, from this namespace to its innermost."""
    caught: int
    """The signals with a handler, one bit each."""

    def receives(self, number: int) -> bool:
        """Return whether a signal ends the process or calls its handler."""
        return self.pids[-1] != 1 or bool(self.caught >> (number - 1) & 1)


async def stop_signals(docker_socket: Path) -> dict[int, int]:
    """Return the stop signal of each running container, by its pid inside. Never raises."""
    found: dict[int, int] = {}
    with contextlib.suppress(OSError, docker_api.BadAnswer, ValueError, KeyError, TypeError):
        running = json.loads(await docker_api.get(docker_socket, "/containers/json"))
        for container in running[:_MAX_CONTAINERS]:
            answer = await docker_api.get(docker_socket, f"/containers/{container['Id']}/json")
            details = json.loads(answer)
            number = signal_number(details["Config"].get("StopSignal") or _DEFAULT_SIGNAL)
            if number is not None:
                found[int(details["State"]["Pid"])] = number
    return found


def signal_number(name: str) -> int | None:
    """Return the number of a signal in the notation of images: `TERM`, `15`, `RTMIN+3`."""
    name = name.upper()
    if name.isdigit():
        return int(name)
    name, _, offset = name.partition("+")
    name = name if name.startswith("SIG") else f"SIG{name}"
    try:
        return int(signal.Signals[name]) + int(offset or 0)
    except (KeyError, ValueError):
        return None


def kill_containers_without_handler(init: int, stop: Mapping[int, int]) -> int:
    """Kill the containers of `init` without a handler for their stop signal; return the count."""
    count = 0
    for process in first_processes(init, processes()):
        number = stop.get(process.pids[-2])
        if number is not None and not process.receives(number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
                count += 1
    return count


def first_processes(init: int, every: Iterable[ProcessStatus]) -> list[ProcessStatus]:
    """Return the first processes of containers: children of the shims, which are orphans
    adopted by `init`."""
    members = list(every)
    shims = {process.pid for process in members if process.parent == init}
    depth = next((len(process.pids) for process in members if process.pid == init), 0)
    return [p for p in members if p.parent in shims and len(p.pids) > depth and p.pids[-1] == 1]


def processes() -> Iterator[ProcessStatus]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError, KeyError, ValueError):
                yield parse(int(entry.name), Path(f"/proc/{entry.name}/status").read_text())


def parse(pid: int, status: str) -> ProcessStatus:
    """Parse a `status` file. Raises KeyError, ValueError."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    pids = tuple(int(word) for word in fields["NSpid"].split())
    return ProcessStatus(pid, int(fields["PPid"]), pids, int(fields["SigCgt"], 16))
