# SPDX-License-Identifier: Apache-2.0
"""Idle detection of one machine of this driver: its Docker socket, its containers, its pause.

Only for dockerd as root: the published ports of a rootless engine do not pass through the host
agent, and clients of containerd use its socket directly.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from rdd.host.cgroups import Layout
from rdd.host.errors import HostError
from rdd.vm.drivers.host.idle_detection.client_socket import ClientSocket
from rdd.vm.drivers.host.idle_detection.pause import MachinePause
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.services import DOCKER_SOCKET, docker_sockets
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.idle.activity import Activity
from rdd.vm.idle.labels import labelled
from rdd.vm.idle.load import Loads
from rdd.vm.idle.settings import IdleAction
from rdd.vm.process_files import live_process


def unobservable(engine: str) -> str:
    """Return why no idle detection is possible with an engine; empty if it is."""
    if not engine:
        return "there is no engine that could be idle"
    if engine != "moby":
        return f"clients of the engine {engine} do not pass through the host agent"
    if os.geteuid() != 0:
        return "published ports of a rootless engine do not pass through the host agent"
    return ""


class HostIdle:
    """Implements `Pausable` for dockerd as root."""

    def __init__(self, context: DriverContext, paths: MachinePaths) -> None:
        self._paths = paths
        self._pause = MachinePause(Layout.read(context.environment), paths.cgroup)
        self.activity: Activity | None = None
        self._sockets = [ClientSocket(path) for path in docker_sockets(context.template)]

    def idle_problem(self, action: IdleAction) -> str:
        return "" if action == "stop" else self._pause.problem

    def suspend_problem(self) -> str:
        return "the driver host has no guest whose memory could be saved"

    def restore(self) -> None:
        """Revert what a former agent changed. Raises HostError."""
        for docker_socket in self._sockets:
            docker_socket.restore()
            docker_socket.link_own(self._inner_socket)

    async def observe(self, activity: Activity, *, is_needed: bool) -> None:
        self.activity = activity
        for docker_socket in self._sockets:
            docker_socket.link_own(self._inner_socket)
            if is_needed:
                await docker_socket.relay(activity)
            else:
                docker_socket.restore()

    async def loads(self) -> Loads:
        return await asyncio.to_thread(self._pause.loads)

    async def kept_awake(self) -> Sequence[str]:
        found = [*await labelled(self._inner_socket)]
        count = sum(one.unobserved(self._pid) for one in self._sockets)
        if count:
            found.append(f"{count} clients of the Docker socket were connected before")
        return found

    async def pause(self, action: IdleAction) -> str:
        await asyncio.to_thread(self._pause.freeze)
        # A wake-up does not wait for it.
        asyncio.get_running_loop().run_in_executor(None, self._pause.reclaim)
        return ""

    async def resume(self) -> None:
        self._pause.thaw()  # at once: a thread would cost more time
        await asyncio.sleep(0)

    async def close(self, *, is_final: bool) -> None:
        for docker_socket in self._sockets:
            await docker_socket.close(is_final=is_final)

    @property
    def _pid(self) -> int:
        process = live_process(self._paths.pid_file, self._paths.identity_file)
        if process is None:
            raise HostError("the engine has ended")
        return process.pid

    @property
    def _inner_socket(self) -> Path:
        return Path(f"/proc/{self._pid}/root{DOCKER_SOCKET}")
