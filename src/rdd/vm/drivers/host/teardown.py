# SPDX-License-Identifier: Apache-2.0
"""What a machine leaves on this machine when it ends, and how it is removed.

Ending the first process of the namespaces ends every process in them; mounts and the inner
network vanish with those. Outside there are firewall rules and the veth, found by the name of
the instance; the switched forwarding and foreign sockets, found in the record; empty cgroups;
and files. Every step is done even if another fails.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.files import remove
from rdd.host.processes import Identity, send_signal
from rdd.vm.drivers.host import network
from rdd.vm.drivers.host.commands import find
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.state import HostMachineState
from rdd.vm.forwarding.sockets import listening_process
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.process_files import live_process

_KILL_S = 10.0
_CGROUPS = Path("/sys/fs/cgroup")


async def cleanup(directory: InstanceDirectory) -> None:
    """End by force what of a machine still runs, and remove what it left. Raises HostError."""
    paths = MachinePaths(directory)
    record = HostMachineState.read(paths.record)
    process = live_process(paths.pid_file, paths.identity_file)
    if process is not None and process.pid != os.getpid():
        await end(process)
    if record is not None or paths.pid_file.exists():
        problems = await asyncio.to_thread(_remove_all, paths, record)
        if problems:
            raise HostError("; ".join(problems))


async def end(process: Identity) -> None:
    """Kill the first process of the namespaces and wait for the rest. Raises HostError."""
    send_signal(process, signal.SIGKILL)
    if not await ended_within(process, _KILL_S):
        raise HostError(f"process {process.pid} still runs {_KILL_S:g} s after SIGKILL")


def _remove_all(paths: MachinePaths, record: HostMachineState | None) -> list[str]:
    problems = []
    steps: list[Callable[[], None]] = [
        lambda: _remove_network(paths, record),
        lambda: _remove_sockets(record),
        lambda: _remove_cgroups(paths.cgroup),
        lambda: _remove_directory(paths.staging),
    ]
    files = (paths.pid_file, paths.identity_file, paths.ended)
    steps += [lambda path=path: remove(path) for path in files]  # type: ignore[misc]
    for step in steps:
        try:
            step()
        except HostError as error:
            problems.append(str(error))
    if not problems:
        remove(paths.record)  # last: it is what a second attempt goes by
    return problems


def _remove_network(paths: MachinePaths, record: HostMachineState | None) -> None:
    if record is not None and record.mode != "root":
        return
    network.delete_veth(paths)
    if find("iptables-save", os.environ) is not None:  # without it there are no rules of ours
        network.disable_egress(paths)
    if record is not None:
        network.restore_forwarding(paths, record.uplinks)


def _remove_sockets(record: HostMachineState | None) -> None:
    for text in record.sockets if record is not None else ():
        path = Path(text)
        if path.is_socket() and listening_process(path) is None:
            remove(path)


def _remove_cgroups(name: str) -> None:
    """Remove the empty cgroups of containers, of every hierarchy there is."""
    roots = [_CGROUPS, *_CGROUPS.glob("*/")] if _CGROUPS.is_dir() else []
    for root in roots:
        top = root / name.lstrip("/")
        if not top.is_dir():
            continue
        for directory, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # busy: somebody moved a process there
                Path(directory).rmdir()
        with contextlib.suppress(OSError):  # the common parent, if it was the last
            top.parent.rmdir()


def _remove_directory(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HostError.from_os(f'remove "{path}"', error) from error
