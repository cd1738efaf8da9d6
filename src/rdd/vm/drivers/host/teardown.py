# SPDX-License-Identifier: Apache-2.0
"""Teardown of a machine: kill its processes, remove its traces on this host.

The end of the first process of the namespaces ends every process in them, and with these the
mounts and the inner network. Outside the namespaces there are firewall rules and the veth pair,
identified by a name derived from the instance; enabled forwarding and sockets, recorded in
`host.json`; empty cgroups; and files. Every step runs even if another one fails.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from rdd.host.cgroups import Freezer, Layout, remove_group
from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.files import remove
from rdd.host.processes import Identity, send_signal
from rdd.vm.drivers.host import network
from rdd.vm.drivers.host.commands import find
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.state import HostMachineState
from rdd.vm.forwarding.sockets import listening_process
from rdd.vm.idle.docker_paths import own_socket, raw_socket
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.process_files import live_process

_KILL_S = 10.0


async def cleanup(directory: InstanceDirectory) -> None:
    """Kill what still runs of a machine and remove its traces. Raises HostError."""
    paths = MachinePaths(directory)
    state = HostMachineState.read(paths.state_file)
    process = live_process(paths.pid_file, paths.identity_file)
    if process is not None and process.pid != os.getpid():
        thaw(directory)
        await end(process)
    if state is not None or paths.pid_file.exists():
        problems = await asyncio.to_thread(_remove_all, paths, state)
        if problems:
            raise HostError("; ".join(problems))


def thaw(directory: InstanceDirectory) -> None:
    """Let a paused machine run: a frozen process of version 1 does not even die."""
    with contextlib.suppress(HostError):
        Freezer(Layout.read(os.environ), MachinePaths(directory).cgroup).thaw()


async def end(process: Identity) -> None:
    """Kill the first process of the namespaces and wait for its end. Raises HostError."""
    send_signal(process, signal.SIGKILL)
    if not await ended_within(process, _KILL_S):
        raise HostError(f"process {process.pid} still runs {_KILL_S:g} s after SIGKILL")


def _remove_all(paths: MachinePaths, state: HostMachineState | None) -> list[str]:
    problems = []
    steps: list[Callable[[], None]] = [
        lambda: _remove_network(paths, state),
        lambda: _remove_sockets(state),
        lambda: remove_group(paths.cgroup, Layout.read(os.environ).hierarchies),
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
        remove(paths.state_file)  # last: a retry needs it
    return problems


def _remove_network(paths: MachinePaths, state: HostMachineState | None) -> None:
    if state is not None and state.mode != "root":
        return
    network.delete_veth(paths)
    if find("iptables-save", os.environ) is not None:  # without it rdd has no rules
        network.disable_egress(paths)
    if state is not None:
        network.restore_forwarding(paths, state.uplinks)


def _remove_sockets(state: HostMachineState | None) -> None:
    for text in state.sockets if state is not None else ():
        path = Path(text)
        for other in (own_socket(path), raw_socket(path)):
            remove(other)
        if path.is_socket() and listening_process(path) is None:
            remove(path)


def _remove_directory(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        try:
            path.rmdir()
        except FileNotFoundError:
            pass
        except OSError as error:
            raise HostError.from_os(f'remove "{path}"', error) from error
