# SPDX-License-Identifier: Apache-2.0
"""Ending a machine: asking first, by force after a time, and tidying up.

The agent is asked with SIGINT and ends the guest. A driver whose agent has died gets a new
agent for that, because only an agent knows how to shut it down. What is left when the time is
over is killed, agent and driver with their groups. Files that tell of processes are removed
only when none of them lives any more: they are the only trace of what still runs.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from rdd.host.errors import HostError
from rdd.host.exits import wait_ended
from rdd.host.processes import Identity, is_alive, send_signal
from rdd.vm.agent import client as agentclient
from rdd.vm.drivers import catalog
from rdd.vm.errors import StopFailed
from rdd.vm.instance_dir import InstanceDirectory, InstanceStatus
from rdd.vm.lifecycle.kill import kill_all

GRACE_S = 30.0
FORCE_S = 10.0
"""How long a killed process may take to disappear."""
SUSPEND_S = 180.0
"""For writing the memory of a large machine to a slow disk."""


class StopOperation:
    """One attempt to end a machine; more hurry can be asked for while it runs."""

    def __init__(
        self,
        directory: InstanceDirectory,
        *,
        grace_s: float,
        agent: Identity | None,
        start_agent: Callable[[], Awaitable[Identity]],
        force_s: float = FORCE_S,
        suspend: bool = False,
    ) -> None:
        self._suspend = suspend
        self._directory = directory
        self._agent = agent
        self._start_agent = start_agent
        self._force_s = force_s
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + (SUSPEND_S if suspend else grace_s)
        self._timeout: asyncio.Timeout | None = None
        self.was_forced = False

    def hurry(self, grace_s: float) -> None:
        """Shorten the time that is left."""
        deadline = asyncio.get_running_loop().time() + grace_s
        if deadline >= self._deadline:
            return
        self._deadline = deadline
        if self._timeout is not None:
            self._timeout.reschedule(deadline)

    async def run(self) -> None:
        """End the machine. Raises StopFailed when something still runs afterwards."""
        directory = self._directory
        try:
            async with asyncio.timeout_at(self._deadline) as self._timeout:
                await self._ask()
        except TimeoutError:
            pass
        finally:
            self._timeout = None
        await self._force()
        if directory.status() not in (InstanceStatus.STOPPED, InstanceStatus.UNINITIALIZED):
            raise StopFailed(f'processes of machine "{directory.name}" still run')

    async def _ask(self) -> None:
        # An agent that ends removes its pid file before it is gone: the one we know counts first.
        agent = self._agent if self._agent and is_alive(self._agent) else self._directory.agent()
        if agent is None:
            if self._directory.driver_process() is None:
                return
            try:
                agent = await self._start_agent()
            except HostError:
                return  # nobody can ask
            self._agent = agent
        if self._suspend:
            await self._ask_to_suspend()
            await wait_ended(agent)
        elif send_signal(agent, signal.SIGINT):
            await wait_ended(agent)

    async def _ask_to_suspend(self) -> None:
        """Have the memory kept. Raises StopFailed when that is refused: the machine runs on."""
        try:
            refusal = await agentclient.suspend(self._directory.ha_sock, timeout_s=SUSPEND_S)
        except agentclient.NoAnswer as error:
            refusal = str(error)
        if refusal:
            raise StopFailed(refusal)

    async def _force(self) -> None:
        """Kill what is left, and remove what it left. Raises StopFailed."""
        directory = self._directory
        known = {self._agent, directory.agent(), directory.driver_process()} - {None}
        left = [process for process in known if process is not None and is_alive(process)]
        if left:
            self.was_forced = True
            problems = await kill_all(left, timeout_s=self._force_s)
            if problems:
                raise StopFailed("; ".join(problems))
        await clean_up(directory)


async def clean_up(directory: InstanceDirectory) -> None:
    """Remove what a machine that has ended left behind. Raises StopFailed."""
    try:
        driver = directory.driver
        if driver in catalog.DRIVERS:
            await catalog.provider(driver).cleanup(directory)
        directory.remove_temporary_files()
    except HostError as error:
        raise StopFailed(str(error)) from error
