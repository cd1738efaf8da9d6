# SPDX-License-Identifier: Apache-2.0
"""Stop of a machine: graceful first, forced after a timeout, then cleanup.

SIGINT makes the agent shut the guest down. A driver whose agent has died gets a new agent for
that, because only an agent can shut it down. After the timeout, agent and driver are killed
with their process groups. Files that identify processes are removed only when none of these
is alive any more: they are the only trace of what still runs.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from rdd.host.errors import HostError
from rdd.host.exits import wait_ended
from rdd.host.processes import Identity, is_alive, send_signal
from rdd.vm.agent import client
from rdd.vm.drivers import catalog
from rdd.vm.drivers.pausing import Thawable
from rdd.vm.errors import StopFailed
from rdd.vm.instance_dir import InstanceDirectory, InstanceStatus
from rdd.vm.lifecycle.kill import kill_all

SUSPEND_S = 180.0
"""Timeout for writing the memory of a large machine to a slow disk."""


class StopOperation:
    """One attempt to stop a machine; `shorten` reduces its timeout while it runs."""

    def __init__(
        self,
        directory: InstanceDirectory,
        *,
        grace_s: float,
        force_s: float,
        agent: Identity | None,
        start_agent: Callable[[], Awaitable[Identity]],
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

    def shorten(self, grace_s: float) -> None:
        """Bring the deadline forward to `grace_s` from now; never postpone it."""
        deadline = asyncio.get_running_loop().time() + grace_s
        if deadline >= self._deadline:
            return
        self._deadline = deadline
        if self._timeout is not None:
            self._timeout.reschedule(deadline)

    async def run(self) -> None:
        """Stop the machine. Raises StopFailed when a process still runs afterwards."""
        directory = self._directory
        try:
            async with asyncio.timeout_at(self._deadline) as self._timeout:
                await self._shut_down()
        except TimeoutError:
            pass
        finally:
            self._timeout = None
        await self._force()
        if directory.status() not in (InstanceStatus.STOPPED, InstanceStatus.UNINITIALIZED):
            raise StopFailed(f'processes of machine "{directory.name}" still run')

    async def _shut_down(self) -> None:
        # An ending agent removes its pid file before it exits: the given process takes precedence.
        agent = self._agent if self._agent and is_alive(self._agent) else self._directory.agent()
        if agent is None:
            if self._directory.driver_process() is None:
                return
            try:
                agent = await self._start_agent()
            except HostError:
                return  # only force is left
            self._agent = agent
        if self._suspend:
            await self._request_suspension()
            await wait_ended(agent)
        elif send_signal(agent, signal.SIGINT):
            await wait_ended(agent)

    async def _request_suspension(self) -> None:
        """Save the memory. Raises StopFailed on a refusal; the machine then runs on."""
        try:
            refusal = await client.suspend(self._directory.ha_sock, timeout_s=SUSPEND_S)
        except client.NoAnswer as error:
            refusal = str(error)
        if refusal:
            raise StopFailed(refusal)

    async def _force(self) -> None:
        """Kill what is left, and clean up. Raises StopFailed."""
        directory = self._directory
        recorded = {self._agent, directory.agent(), directory.driver_process()} - {None}
        left = [process for process in recorded if process is not None and is_alive(process)]
        if left:
            self.was_forced = True
            driver = directory.driver
            provider = catalog.provider(driver) if driver in catalog.DRIVERS else None
            if isinstance(provider, Thawable):
                provider.thaw(directory)
            problems = await kill_all(left, timeout_s=self._force_s)
            if problems:
                raise StopFailed("; ".join(problems))
        await clean_up(directory)


async def clean_up(directory: InstanceDirectory) -> None:
    """Remove what a stopped machine left behind. Raises StopFailed."""
    try:
        driver = directory.driver
        if driver in catalog.DRIVERS:
            await catalog.provider(driver).cleanup(directory)
        directory.remove_temporary_files()
    except HostError as error:
        raise StopFailed(str(error)) from error
