# SPDX-License-Identifier: Apache-2.0
"""All machines of one LIMA_HOME, as a controller uses them.

Calls that end quickly are awaited (`create` may take minutes and is a coroutine for a task of
the caller's); what takes time by nature, the boot and the stop, goes on by itself, and `phase`
tells how far it is. `changed` is called with a machine's name whenever that differs.

Ending the daemon never ends a machine: `drain` stops them on purpose, `close` leaves them to
the next daemon, which finds them by identity (`adopt`).
"""

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdd.host.changes import Changes
from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.files import write_atomically
from rdd.host.processes import Identity, send_signal
from rdd.vm.agent import client as agentclient
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import ExternalAgent, HasStorage, Storage
from rdd.vm.drivers.selection import has_own_image
from rdd.vm.errors import Busy, MachineExists, NotCreated, StartFailed, StopFailed
from rdd.vm.instance_dir import InstanceDirectory, InstanceStatus, InvalidName, LimaHome
from rdd.vm.lifecycle import create as creating
from rdd.vm.lifecycle.kill import kill_all
from rdd.vm.lifecycle.machine import Machine
from rdd.vm.lifecycle.monitor import AgentProcess
from rdd.vm.lifecycle.observation import Observation, Phase, PortForwardState
from rdd.vm.lifecycle.start import (
    PID_FILE_TIMEOUT_S,
    check_startable,
    prepare_files,
    start_agent,
    start_external_agent,
)
from rdd.vm.lifecycle.stop import FORCE_S, GRACE_S, clean_up
from rdd.vm.template import HostFacts, TemplateError, validate

__all__ = [
    "Busy",
    "InstanceStatus",
    "InvalidName",
    "MachineExists",
    "Machines",
    "NotCreated",
    "Observation",
    "Phase",
    "PortForwardState",
    "StartFailed",
    "StopFailed",
    "TemplateError",
    "Timeouts",
]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long things may take."""

    pid_file_s: float = PID_FILE_TIMEOUT_S
    """From the start of an agent to its pid file."""
    response_s: float = 3.0
    """From the request to let go to the answer."""
    detach_s: float = 10.0
    """From that answer to the end of the agent."""
    grace_s: float = GRACE_S
    """For a machine to shut down."""
    force_s: float = FORCE_S
    """For a killed process to disappear."""


class Machines:
    """The machines of one LIMA_HOME. Belongs to one event loop and one daemon at a time."""

    def __init__(
        self,
        home: LimaHome,
        *,
        agent_command: Sequence[str],
        changed: Callable[[str], None],
        environment: Mapping[str, str],
        facts: HostFacts,
        version: str = "",
        timeouts: Timeouts | None = None,
    ) -> None:
        self.home = home
        self.timeouts = timeouts or Timeouts()
        self._agent_command = tuple(agent_command)
        self._changed = changed
        self._environment = environment
        self._facts = facts
        self._version = version
        self._machines: dict[str, Machine] = {}
        self._changes: Changes | None = None

    def inspect(self, name: str) -> InstanceStatus:
        """What files and processes say now. Raises InvalidName."""
        return self.home.directory(name).status()

    def phase(self, name: str) -> Observation:
        """What is known of a machine; UNKNOWN if nobody here has looked after it."""
        machine = self._machines.get(name)
        return machine.observation if machine else Observation()

    def template_text(self, name: str) -> str | None:
        """The template on disk; None if there is none. Raises InvalidName, HostError."""
        return self.home.directory(name).read_lima_yaml()

    async def create(
        self,
        name: str,
        text: str,
        *,
        progress: Callable[[str], None],
        clone_of: str = "",
        driver: str = "",
    ) -> None:
        """Make an instance, with all that its first start needs; may take minutes.

        With `clone_of` its disk is a copy of that of a stopped machine, with `driver` no other
        one runs it. Cancellable. Raises
        InvalidName, TemplateError, MachineExists, Busy, HostError; nothing of the attempt is
        left then, and what an earlier one left is removed first.
        """
        machine = self._machine(name)
        async with machine.lock, contextlib.AsyncExitStack() as stack:
            prepare = None
            if clone_of == name:
                raise HostError(f'machine "{name}" cannot be a clone of itself')
            if clone_of:
                source = await stack.enter_async_context(self.storage(clone_of))
                prepare = source.clone_to
            await creating.create(
                self.home,
                name,
                text,
                facts=self._facts,
                environment=self._environment,
                version=self._version,
                progress=progress,
                fill=prepare,
                driver=driver,
            )

    def write_template(self, name: str, text: str) -> None:
        """Change the template of an instance; counts from the next start.

        Raises InvalidName, NotCreated, TemplateError, HostError (also for a smaller disk).
        """
        directory = self.home.directory(name)
        if not directory.exists() or directory.is_incomplete():
            raise NotCreated(f'machine "{name}" is not created')
        has_image = has_own_image(self._environment)
        template = validate(text, driver=directory.driver, has_image=has_image)
        disk = self._disk_of(directory)
        if template.disk and template.disk < disk:
            raise HostError(
                f"disk: {template.disk} must not be less than now, {disk}: no disk shrinks"
            )
        write_atomically(directory.lima_yaml, text, mode=0o644)

    def _disk_of(self, directory: InstanceDirectory) -> int:
        """The size in the template; 0 if that was removed or broken by hand."""
        try:
            return directory.template(self._facts).disk
        except (TemplateError, HostError):
            return 0

    async def start(self, name: str) -> None:
        """Start a machine: returns when its agent is there, the boot goes on.

        A driver that runs without an agent is taken over. Raises InvalidName, NotCreated, Busy,
        StartFailed, HostError.
        """
        machine = self._machine(name)
        async with machine.lock:
            if machine.is_stopping:
                raise Busy(f'machine "{name}" is still stopping')
            if machine.is_watched:
                return
            if machine.directory.agent() is not None:
                raise Busy(f'machine "{name}" has a host agent already; it must be adopted')
            await self._start(machine)

    async def adopt(self, name: str) -> bool:
        """Look after a machine that an earlier daemon, or an agent that died, has left running.

        An orphaned agent is asked to let go of the driver and replaced. One that does not
        answer is killed, but not the driver. One that answers and cannot let go is stopped with
        its driver, and the machine started anew. Where the driver has an agent of its own
        (Lima's), that is followed from now on. False if nothing runs.
        Raises InvalidName, NotCreated, Busy, StartFailed, HostError.
        """
        machine = self._machine(name)
        async with machine.lock:
            if machine.is_stopping:
                raise Busy(f'machine "{name}" is still stopping')
            if machine.is_watched:
                return True
            directory = machine.directory
            agent = directory.agent()
            if agent is None and directory.driver_process() is None:
                return False
            if agent is not None and self._external_agent(directory) is not None:
                machine.watch(AgentProcess(agent))
                return True
            if agent is not None:
                await self._replace_agent(directory, agent)
            await self._start(machine)
            return True

    async def _replace_agent(self, directory: InstanceDirectory, agent: Identity) -> None:
        """End an orphaned agent, if possible without its driver. Raises HostError."""
        try:
            agreed = await agentclient.detach(directory.ha_sock, timeout_s=self.timeouts.response_s)
            wait_s = self.timeouts.detach_s
            if not agreed:  # somebody else's: it ends its driver with itself
                _log.info('machine "%s" has an agent that cannot let go', directory.name)
                send_signal(agent, signal.SIGINT)
                wait_s = self.timeouts.grace_s
        except agentclient.NoAnswer as error:
            _log.warning('machine "%s": %s; killing its host agent', directory.name, error)
            wait_s = 0
        if not await ended_within(agent, wait_s):
            problems = await kill_all([agent], timeout_s=self.timeouts.force_s)
            if problems:
                raise StopFailed("; ".join(problems))

    async def _start(self, machine: Machine) -> Identity:
        directory = machine.directory
        check_startable(directory)
        await asyncio.to_thread(prepare_files, directory, self._facts, self._environment)
        external = self._external_agent(directory)
        if external is not None:
            agent = await self._start_external_agent(directory, external)
        else:
            agent = await start_agent(
                directory,
                command=self._agent_command,
                environment=self._environment,
                changes=self._watches(),
                timeout_s=self.timeouts.pid_file_s,
            )
        machine.watch(agent)
        return agent.identity

    async def _start_external_agent(
        self, directory: InstanceDirectory, external: ExternalAgent
    ) -> AgentProcess:
        """Start the driver's own agent, which cannot adopt what still runs."""
        command = external.agent_command(directory, self._environment)
        await catalog.provider(directory.driver).cleanup(directory)
        return await start_external_agent(
            directory, command, environment=self._environment, changes=self._watches()
        )

    def _external_agent(self, directory: InstanceDirectory) -> ExternalAgent | None:
        driver = directory.driver
        provider = catalog.provider(driver) if driver in catalog.DRIVERS else None
        return provider if isinstance(provider, ExternalAgent) else None

    @contextlib.asynccontextmanager
    async def storage(self, name: str) -> AsyncIterator[Storage]:
        """The disk of a machine that does not run, and does not start meanwhile.

        What is yielded is the driver's own `storage`. Raises InvalidName, NotCreated, Busy,
        HostError when the driver has nothing of the kind.
        """
        machine = self._machine(name)
        async with machine.lock:
            directory = self._created(name)
            if machine.is_stopping or directory.status() is not InstanceStatus.STOPPED:
                raise Busy(f'machine "{name}" must be stopped for that')
            yield self._storage(directory)

    async def describe_storage(self, name: str) -> dict[str, Any]:
        """Size and snapshots of a machine's disk, whether it runs or not.

        Raises InvalidName, NotCreated, HostError.
        """
        return {**await self._storage(self._created(name)).describe()}

    async def trim(self, name: str) -> str:
        """Have a running guest give back what it does not use; what it says.

        Raises InvalidName, NotCreated, Busy, HostError.
        """
        directory = self._created(name)
        if self.phase(name).phase is not Phase.RUNNING:
            raise Busy(f'machine "{name}" must be running for that')
        template = directory.template(self._facts)
        return await self._storage(directory).trim(template, self._environment)

    def _storage(self, directory: InstanceDirectory) -> Storage:
        driver = directory.driver
        provider = catalog.provider(driver) if driver in catalog.DRIVERS else None
        if not isinstance(provider, HasStorage):
            raise HostError(f"the {driver} driver has no snapshots and no disk of its own")
        return provider.storage(directory)

    def stop(self, name: str, *, grace_s: float | None = None, suspend: bool = False) -> None:
        """Begin to stop a machine; `phase` tells how far it is. Raises InvalidName.

        Called again with less time, it hurries. The machine is asked first and killed after
        `grace_s`; with 0 at once. With `suspend` its memory is kept and it goes on from there
        with the next start; where that is refused it runs on, and `stop_error` says why.
        """
        self._begin_stop(
            self._machine(name),
            self.timeouts.grace_s if grace_s is None else grace_s,
            suspend=suspend,
        )

    def _begin_stop(
        self, machine: Machine, grace_s: float, *, suspend: bool = False
    ) -> "asyncio.Task[None]":
        async def new_agent() -> Identity:
            if self._external_agent(machine.directory) is not None:
                raise HostError("its host agent cannot take over a machine")
            return await self._start(machine)

        return machine.stop(
            grace_s=grace_s,
            force_s=self.timeouts.force_s,
            start_agent=new_agent,
            suspend=suspend,
        )

    async def delete(
        self, name: str, *, grace_s: float | None = None, keep_logs_in: Path | None = None
    ) -> None:
        """Stop a machine and remove it; does nothing if there is none.

        Raises InvalidName, StopFailed, HostError; can be called again then.
        """
        machine = self._machine(name)
        async with machine.lock:
            directory = machine.directory
            if directory.exists():
                await self._end(machine, self.timeouts.grace_s if grace_s is None else grace_s)
                if keep_logs_in is not None:
                    await asyncio.to_thread(creating.keep_logs, directory, keep_logs_in)
            await creating.remove_directory(directory)
            await machine.detach()
        self._machines.pop(name, None)

    async def _end(self, machine: Machine, grace_s: float) -> None:
        if _runs(machine):
            await asyncio.shield(self._begin_stop(machine, grace_s))
            if error := machine.observation.stop_error:
                raise StopFailed(error)
        else:
            await clean_up(machine.directory)

    async def drain(self, *, budget_s: float) -> None:
        """Stop every machine that runs, all at once, within one budget.

        What does not stop in time is killed while there is time left for that.
        """
        grace_s = max(0.0, budget_s - self.timeouts.force_s)
        tasks = []
        for name in self.home.names():
            machine = self._machine(name)
            if _runs(machine):
                tasks.append(self._begin_stop(machine, grace_s))
        if tasks:
            await asyncio.wait(tasks, timeout=budget_s)

    async def sweep(self) -> None:
        """Remove what a crash left beside the instances. For the start of a daemon."""
        for name in creating.unfinished(self.home):
            try:
                machine = self._machine(name)
                async with machine.lock:  # or it is being created right now
                    await creating.sweep(machine.directory)
            except (HostError, InvalidName) as error:
                _log.warning("%s", error)

    async def close(self) -> None:
        """Stop looking after all machines; they go on running."""
        for machine in self._machines.values():
            await machine.detach()
        self._machines.clear()
        if self._changes is not None:
            self._changes.close()
            self._changes = None

    def _machine(self, name: str) -> Machine:
        machine = self._machines.get(name)
        if machine is None:
            machine = Machine(
                self.home.directory(name),
                changes=self._watches(),
                changed=lambda: self._changed(name),
            )
            self._machines[name] = machine
        return machine

    def _created(self, name: str) -> InstanceDirectory:
        directory = self.home.directory(name)
        if directory.status() is InstanceStatus.UNINITIALIZED:
            raise NotCreated(f'machine "{name}" is not created')
        return directory

    def _watches(self) -> Changes:
        if self._changes is None:
            self._changes = Changes()
        return self._changes


def _runs(machine: Machine) -> bool:
    directory = machine.directory
    return (
        machine.is_watched
        or machine.is_stopping
        or directory.agent() is not None
        or directory.driver_process() is not None
    )
