# SPDX-License-Identifier: Apache-2.0
"""All machines of one LIMA_HOME, as a controller uses them.

Operations that finish quickly are awaited; `create` may take minutes and runs in a task of the
caller. Boot and stop continue in the background; `phase` returns their progress. `changed` is
called with the name of a machine whenever its observation changes.

The end of the daemon never ends a machine: `drain` stops machines on purpose, `close` leaves
them to the next daemon, which identifies their processes and adopts them (`adopt`).
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdd.fetch.network import DIRECT, Network
from rdd.host.errors import HostError
from rdd.host.file_watcher import FileWatcher
from rdd.host.files import write_atomically
from rdd.host.processes import Identity
from rdd.vm.agent import client
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import ExternalAgent
from rdd.vm.drivers.selection import has_own_image
from rdd.vm.drivers.storage_protocol import HasStorage, Storage
from rdd.vm.errors import Busy, MachineExists, NotCreated, StartFailed, StopFailed
from rdd.vm.idle.settings import IdleSettings
from rdd.vm.idle.wake import wake
from rdd.vm.instance_dir import InstanceDirectory, InstanceStatus, InvalidName, LimaHome
from rdd.vm.lifecycle.adopt import end_orphaned_agent
from rdd.vm.lifecycle.create import create as create_instance
from rdd.vm.lifecycle.delete import keep_logs, remove_directory, sweep, unfinished
from rdd.vm.lifecycle.machine import Machine
from rdd.vm.lifecycle.monitor import AgentProcess
from rdd.vm.lifecycle.observation import Observation, Phase, PortForwardState
from rdd.vm.lifecycle.start import (
    check_startable,
    prepare_files,
    start_agent,
    start_external_agent,
)
from rdd.vm.lifecycle.stop import clean_up
from rdd.vm.lifecycle.timeouts import Timeouts
from rdd.vm.machine_trash import MachineTrash
from rdd.vm.snapshots.machine import create_from
from rdd.vm.snapshots.store import SnapshotStore
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


class Machines:
    """The machines of one LIMA_HOME. Bound to one event loop; one daemon at a time."""

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
        trash: MachineTrash | None = None,
        snapshots: SnapshotStore | None = None,
        network: Callable[[], Network] = lambda: DIRECT,
    ) -> None:
        """`network` fetches the images of new machines."""
        self.home = home
        self._snapshots = snapshots
        self._network = network
        self._trash = trash
        self.timeouts = timeouts or Timeouts()
        self._agent_command = tuple(agent_command)
        self._changed = changed
        self._environment = environment
        self._facts = facts
        self._version = version
        self._machines: dict[str, Machine] = {}
        self._changes: FileWatcher | None = None

    def inspect(self, name: str) -> InstanceStatus:
        """Return the status according to files and processes. Raises InvalidName."""
        return self.home.directory(name).status()

    def phase(self, name: str) -> Observation:
        """Return the observation of a machine; UNKNOWN if this object does not monitor it."""
        machine = self._machines.get(name)
        return machine.observation if machine else Observation()

    def template_text(self, name: str) -> str | None:
        """Return the template on disk; None if there is none. Raises InvalidName, HostError."""
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
        """Create an instance, with all that its first start needs; may take minutes.

        With `clone_of` its disk is a copy of that of a stopped machine; with `driver` only
        that driver runs it. Cancellable. Raises InvalidName, TemplateError, MachineExists,
        Busy, HostError, and then leaves nothing behind; what an earlier attempt left is
        removed first.
        """
        machine = self._machine(name)
        async with machine.lock, contextlib.AsyncExitStack() as stack:
            fill = None
            if clone_of == name:
                raise HostError(f'machine "{name}" cannot be a clone of itself')
            if clone_of:
                source = await stack.enter_async_context(self.storage(clone_of))
                fill = source.clone_to
            await create_instance(
                self.home,
                name,
                text,
                facts=self._facts,
                environment=self._environment,
                version=self._version,
                progress=progress,
                fill=fill,
                driver=driver,
                network=self._network(),
            )

    async def restore(self, name: str, entry_id: str) -> None:
        """Create an instance from an entry of the trash. Raises InvalidName, HostError."""
        machine = self._machine(name)
        async with machine.lock:
            if machine.directory.exists():
                raise MachineExists(f'machine "{name}" already exists')
            if self._trash is None:
                raise HostError("there is no trash")
            await asyncio.to_thread(self._trash.restore, machine.directory, entry_id)

    async def restore_snapshot(self, name: str, snapshot: str) -> None:
        """Create an instance from a machine in a snapshot: `SNAPSHOT`, or `SNAPSHOT/MACHINE`.

        Cancellable. Raises InvalidName, HostError, and then leaves nothing behind.
        """
        machine = self._machine(name)
        async with machine.lock:
            if machine.directory.exists():
                raise MachineExists(f'machine "{name}" already exists')
            if self._snapshots is None:
                raise HostError("there are no snapshots")
            snapshot, _, saved = snapshot.partition("/")
            found = await asyncio.to_thread(self._snapshots.find, snapshot)
            if found is None:
                raise HostError(f'there is no snapshot "{snapshot}"')
            await create_from(found, saved or name, machine.directory)

    def write_template(self, name: str, text: str) -> None:
        """Replace the template of an instance; takes effect with the next start.

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
                f"disk: {template.disk} is less than the current size {disk}: disks cannot shrink"
            )
        write_atomically(directory.lima_yaml, text, mode=0o644)

    def _disk_of(self, directory: InstanceDirectory) -> int:
        """Return the disk size in the template; 0 if the template is missing or broken."""
        try:
            return directory.template(self._facts).disk
        except (TemplateError, HostError):
            return 0

    async def start(self, name: str) -> None:
        """Start a machine: return when its agent runs; the boot continues in the background.

        A driver that runs without an agent is adopted. Raises InvalidName, NotCreated, Busy,
        StartFailed, HostError.
        """
        machine = self._machine(name)
        async with machine.lock:
            if machine.is_stopping:
                raise Busy(f'machine "{name}" is still stopping')
            if machine.is_monitored:
                return
            if machine.directory.agent() is not None:
                raise Busy(f'machine "{name}" has a host agent already; it must be adopted')
            await self._start(machine)

    async def adopt(self, name: str) -> bool:
        """Monitor a machine that an earlier daemon, or a dead agent, left running.

        `lifecycle.adopt` describes the cases. Returns False if nothing runs.
        Raises InvalidName, NotCreated, Busy, StartFailed, HostError.
        """
        machine = self._machine(name)
        async with machine.lock:
            if machine.is_stopping:
                raise Busy(f'machine "{name}" is still stopping')
            if machine.is_monitored:
                return True
            directory = machine.directory
            agent = directory.agent()
            if agent is None and directory.driver_process() is None:
                return False
            if agent is not None and self._external_agent(directory) is not None:
                machine.monitor(AgentProcess(agent))
                return True
            if agent is not None:
                await end_orphaned_agent(directory, agent, self.timeouts)
            await self._start(machine)
            return True

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
                changes=self._file_changes(),
                timeout_s=self.timeouts.pid_file_s,
            )
        machine.monitor(agent)
        return agent.identity

    async def _start_external_agent(
        self, directory: InstanceDirectory, external: ExternalAgent
    ) -> AgentProcess:
        """Start the driver's own agent, which cannot adopt what still runs."""
        command = external.agent_command(directory, self._environment)
        await catalog.provider(directory.driver).cleanup(directory)
        return await start_external_agent(
            directory, command, environment=self._environment, changes=self._file_changes()
        )

    def _external_agent(self, directory: InstanceDirectory) -> ExternalAgent | None:
        driver = directory.driver
        provider = catalog.provider(driver) if driver in catalog.DRIVERS else None
        return provider if isinstance(provider, ExternalAgent) else None

    @contextlib.asynccontextmanager
    async def storage(self, name: str) -> AsyncIterator[Storage]:
        """Yield the disk of a stopped machine, and prevent a start meanwhile.

        Raises InvalidName, NotCreated, Busy, HostError when the driver has no disks.
        """
        machine = self._machine(name)
        async with machine.lock:
            directory = self._created(name)
            if machine.is_stopping or directory.status() is not InstanceStatus.STOPPED:
                raise Busy(f'machine "{name}" must be stopped for that')
            yield self._storage(directory)

    async def describe_storage(self, name: str) -> dict[str, Any]:
        """Return size and snapshots of a machine's disk, whether it runs or not.

        Raises InvalidName, NotCreated, HostError.
        """
        return {**await self._storage(self._created(name)).describe()}

    async def trim(self, name: str) -> str:
        """Discard unused blocks of a running guest's disk; return the guest's output.

        Raises InvalidName, NotCreated, Busy, HostError.
        """
        directory = self._created(name)
        if self.phase(name).phase is not Phase.RUNNING:
            raise Busy(f'machine "{name}" must be running for that')
        await self.wake(name)
        template = directory.template(self._facts)
        return await self._storage(directory).trim(template, self._environment)

    async def grow(self, name: str) -> None:
        """Grow the disk of a running guest to the size in its template.

        Raises InvalidName, NotCreated, and HostError if that takes a restart.
        """
        directory = self._created(name)
        if self.phase(name).phase is not Phase.RUNNING:
            raise Busy(f'machine "{name}" must be running for that')
        await self.wake(name)
        try:
            await asyncio.to_thread(directory.refresh_template, self._facts)
            problem = await client.grow_disk(directory.ha_sock)
        except (client.NoAnswer, TemplateError) as error:
            raise HostError(str(error)) from error
        if problem:
            raise HostError(problem)

    async def set_idle(self, name: str, settings: IdleSettings) -> str:
        """Set the settings of idle detection; return why they have no effect, or "".

        Raises InvalidName, HostError.
        """
        directory = self.home.directory(name)
        if settings != IdleSettings.read(directory.idle_settings):
            settings.write(directory.idle_settings)
            if directory.agent() is not None and self._external_agent(directory) is None:
                try:
                    await client.reload_idle_settings(directory.ha_sock)
                except client.NoAnswer as error:
                    _log.info("%s; it reads the settings when it starts", error)
        if settings.action == "none" or self._external_agent(directory) is None:
            return ""
        return f"the driver {directory.driver} has its own host agent, which does not detect it"

    async def wake(self, name: str) -> None:
        """Wake a paused machine. Raises InvalidName, HostError."""
        await wake(self.home.directory(name))

    def _storage(self, directory: InstanceDirectory) -> Storage:
        driver = directory.driver
        provider = catalog.provider(driver) if driver in catalog.DRIVERS else None
        if not isinstance(provider, HasStorage):
            raise HostError(f"the {driver} driver has no snapshots and no disk of its own")
        return provider.storage(directory)

    def stop(self, name: str, *, grace_s: float | None = None, suspend: bool = False) -> None:
        """Begin to stop a machine; `phase` returns the progress. Raises InvalidName.

        The machine is shut down, and killed after `grace_s`; 0 kills at once. A second call
        can shorten the timeout. `suspend` saves the memory, and the next start resumes it;
        if the driver refuses, the machine runs on and `stop_error` has the reason.
        """
        self._begin_stop(
            self._machine(name),
            self.timeouts.grace_s if grace_s is None else grace_s,
            suspend=suspend,
        )

    def _begin_stop(
        self, machine: Machine, grace_s: float, *, suspend: bool = False
    ) -> "asyncio.Task[None]":
        async def start_adopting_agent() -> Identity:
            if self._external_agent(machine.directory) is not None:
                raise HostError("its host agent cannot adopt a machine")
            return await self._start(machine)

        return machine.stop(
            grace_s=grace_s,
            force_s=self.timeouts.force_s,
            start_agent=start_adopting_agent,
            suspend=suspend,
        )

    async def delete(
        self,
        name: str,
        *,
        grace_s: float | None = None,
        keep_logs_in: Path | None = None,
        use_trash: bool = True,
        details: Mapping[str, str] | None = None,
    ) -> None:
        """Stop a machine and remove it, or move it to the trash if there is one. Idempotent.

        The trash keeps `details` with it.
        Raises InvalidName, StopFailed, HostError; a second call then retries.
        """
        machine = self._machine(name)
        async with machine.lock:
            directory = machine.directory
            if directory.exists():
                await self._end(machine, self.timeouts.grace_s if grace_s is None else grace_s)
                if keep_logs_in is not None:
                    await asyncio.to_thread(keep_logs, directory, keep_logs_in)
            keep = (
                functools.partial(self._trash.keep, details=details)
                if self._trash is not None and use_trash
                else None
            )
            await remove_directory(directory, keep=keep)
            await machine.detach()
        self._machines.pop(name, None)

    async def end(self, name: str, *, keep_logs_in: Path | None = None) -> None:
        """Stop a machine and what is left of its processes; keep its directory.

        Raises InvalidName, StopFailed, HostError.
        """
        machine = self._machine(name)
        async with machine.lock:
            await self._end(machine, self.timeouts.grace_s)
            if keep_logs_in is not None:
                await asyncio.to_thread(keep_logs, machine.directory, keep_logs_in)

    async def _end(self, machine: Machine, grace_s: float) -> None:
        if _is_alive(machine):
            await asyncio.shield(self._begin_stop(machine, grace_s))
            if error := machine.observation.stop_error:
                raise StopFailed(error)
        else:
            await clean_up(machine.directory)

    async def drain(self, *, budget_s: float) -> None:
        """Stop all running machines concurrently, within one budget.

        The shutdown timeout leaves time in the budget for a forced stop.
        """
        grace_s = max(0.0, budget_s - self.timeouts.force_s)
        tasks = []
        for name in self.home.names():
            machine = self._machine(name)
            if _is_alive(machine):
                tasks.append(self._begin_stop(machine, grace_s))
        if tasks:
            await asyncio.wait(tasks, timeout=budget_s)

    async def sweep(self) -> None:
        """Remove the remains of interrupted creations and deletions, at the daemon's start."""
        for name in unfinished(self.home):
            try:
                machine = self._machine(name)
                async with machine.lock:  # a creation may be in progress
                    await sweep(machine.directory)
            except (HostError, InvalidName) as error:
                _log.warning("%s", error)

    async def close(self) -> None:
        """Stop monitoring; the machines run on."""
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
                changes=self._file_changes(),
                changed=lambda: self._changed(name),
            )
            self._machines[name] = machine
        return machine

    def _created(self, name: str) -> InstanceDirectory:
        directory = self.home.directory(name)
        if directory.status() is InstanceStatus.UNINITIALIZED:
            raise NotCreated(f'machine "{name}" is not created')
        return directory

    def _file_changes(self) -> FileWatcher:
        if self._changes is None:
            self._changes = FileWatcher()
        return self._changes


def _is_alive(machine: Machine) -> bool:
    directory = machine.directory
    return (
        machine.is_monitored
        or machine.is_stopping
        or directory.agent() is not None
        or directory.driver_process() is not None
    )
