# SPDX-License-Identifier: Apache-2.0
"""The driver `qemu` of one machine: an emulator and an ssh connection to its guest.

The emulator is started once and outlives its agent: it has a session of its own, its control
socket accepts the connection of the next agent, and `qemu.json` has the rest of the state.
State that can be derived is not stored.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.exits import ended_within, wait_ended
from rdd.host.files import read_text, remove, write_atomically
from rdd.host.processes import Identity, identity, is_alive, send_signal
from rdd.host.spawn import spawn_into_log
from rdd.host.user_cache import cache_directory
from rdd.vm import cidata, ssh
from rdd.vm.drivers.protocol import (
    DriverContext,
    Forward,
    Listener,
    LivenessProbe,
    Requirement,
    Unmet,
)
from rdd.vm.drivers.qemu import arguments, disks, files, mounts, ssh_port, suspension
from rdd.vm.drivers.qemu import listeners as listening
from rdd.vm.drivers.qemu.accelerator import CACHE_FILE, choose, cpu_model
from rdd.vm.drivers.qemu.clock import GuestClock
from rdd.vm.drivers.qemu.disk import growth
from rdd.vm.drivers.qemu.disk.guest_disk import GuestDisk
from rdd.vm.drivers.qemu.disk.host_space import HostSpace
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.drivers.qemu.idle import GuestIdle
from rdd.vm.drivers.qemu.idle_suspension import IdleSuspension
from rdd.vm.drivers.qemu.memory import GuestMemory
from rdd.vm.drivers.qemu.programs import system_program, version
from rdd.vm.drivers.qemu.qmp import Qmp, QmpError, QmpEvent
from rdd.vm.drivers.qemu.relayed_forwards import RelayedForwards
from rdd.vm.drivers.qemu.requirements import GuestRequirements
from rdd.vm.drivers.qemu.sharing.mount_events import MountEvents
from rdd.vm.drivers.qemu.teardown import cleanup
from rdd.vm.drivers.qemu.unsupported import unsupported_fields
from rdd.vm.problem import GUEST_HUNG
from rdd.vm.process_files import live_process, write_pid_file

_CONNECT_S = 20.0  # from the start of the emulator to its control socket
_LOAD_S = 120.0  # the same when it loads the memory of a suspended machine
_POLL_S = 0.02
_SILENCE_S = 7.0
"""A guest writes a sign of life about every 3 s, an emulated one under load every 5 s."""
_QUIT_S = 3.0  # for the emulator to flush its caches


class QemuDriver:
    """Implements `Driver`, `Suspendable` and `GrowsDisk`."""

    name = files.NAME

    def __init__(self, context: DriverContext) -> None:
        self._context = context
        self._directory = context.directory
        self._template = context.template
        self._path = context.directory.path
        self._home = Path(context.environment.get("HOME") or "/")
        self._process: Identity | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._qmp: Qmp | None = None
        self._shutdown: QmpEvent | None = None
        self._is_resumed = False
        self._last_sign = 0.0
        previous = files.read_state(context.directory)
        self._state = files.QemuMachineState(
            ssh_port.choose(context.directory, self.name, self._template.ssh.local_port, previous),
            previous.instance_id if previous else "",
        )
        lima_home = self._path.parent
        self._connection = GuestConnection(
            ssh.SshTarget(
                port=self._state.ssh_port,
                user=self._template.user.name,
                identity=lima_home / ssh.CONFIG_DIR / ssh.KEY,
                control=context.directory.ssh_sock,
                forward_agent=self._template.ssh.forward_agent,
            ),
            log=self._path / ssh.LOG,
            record=lambda forwards: self._save(replace(self._state, forwards=forwards)),
            warn=context.warn,
        )
        self._clock = GuestClock(self._connection, context)
        self._disk = GuestDisk(self._connection, context)
        self._mount_events = MountEvents(self._connection, context)
        self._forwards = RelayedForwards(context, self._connection)
        self._suspension = IdleSuspension(context, self, self._connection)
        self.pausing = GuestIdle(context, self._connection, self._forwards, self._suspension)
        self._memory = GuestMemory(
            qmp=lambda: self._qmp,
            pid=lambda: self._process.pid if self._process is not None else 0,
            report=context.memory,
            warn=context.warn,
        )
        self._host_space = HostSpace(
            self._path,
            qmp=lambda: self._qmp,
            continued=self._record_sign_of_life,
            warn=context.warn,
        )
        self._sshfs = mounts.SshfsMounts(
            self._connection,
            log=self._path / "sshfs.log",
            helper=self._add_helper,
            degrade=context.degrade,
        )

    @property
    def qmp(self) -> Qmp | None:
        """The control connection of the emulator; None without one."""
        return self._qmp

    @property
    def ssh_local_port(self) -> int:
        return self._state.ssh_port

    # -- the emulator

    async def start(self) -> None:
        """Start the emulator; resume saved memory if there is any."""
        await cleanup(self._directory)
        for name in unsupported_fields(self._template):
            self._context.warn(f"{name} is ignored by the qemu driver")
        if not (self._path / files.DISK).exists():
            raise HostError(f'"{self._path / files.DISK}" is missing; delete the machine')
        await ssh.ensure_key(self._path.parent)
        if self._template.mounts:
            await asyncio.to_thread(mounts.make_locations, self._template.mounts)
        machine, kind = await self._options()
        suspended = await suspension.usable(self._path, kind, self._context.warn)
        try:
            if suspended is not None and await self._resume(machine, suspended):
                self._is_resumed = True
                return
            await self._boot(machine)
        except BaseException:
            await asyncio.shield(self.stop(grace_s=0))
            raise

    async def _options(self) -> tuple[arguments.EmulatorOptions, suspension.MachineKind]:
        environment = self._context.environment
        program = system_program(self._template.arch, environment)
        cache = cache_directory(environment, self._home) / CACHE_FILE
        accelerator = await choose(program, environment, cache)
        line = read_text(self._path / files.KERNEL_LINE)
        has_kernel = (self._path / files.KERNEL).exists()
        firmware = None
        if not has_kernel and not self._template.firmware.legacy_bios:
            firmware = arguments.find_firmware(self._template.arch)
        shares: tuple[arguments.SharedDirectory, ...] = ()
        if self._template.mounts:
            shares = mounts.offered(self._template.mounts, self._mount_kind())
        machine = arguments.EmulatorOptions(
            program=program,
            name=self._directory.name,
            accelerator=accelerator,
            ssh_port=self._state.ssh_port,
            shares=shares,
            kernel_line=(line or "").strip() if has_kernel else None,
            has_initrd=(self._path / files.INITRD).exists(),
            firmware=firmware,
        )
        kind = suspension.MachineKind(
            self._directory.read_lima_yaml() or "",
            accelerator,
            f"{cpu_model(accelerator)} {suspension.processor()}",
            await version(program),
            " ".join(arguments.hardware(self._template, machine, self._mac())),
        )
        return machine, kind

    async def load_memory(self) -> None:
        """Start the emulator again with the saved memory. Raises HostError."""
        machine, kind = await self._options()
        suspended = await suspension.usable(self._path, kind, self._context.warn)
        if suspended is None or not await self._resume(machine, suspended):
            raise HostError("its memory cannot be loaded")

    async def _resume(
        self, machine: arguments.EmulatorOptions, suspended: suspension.Suspended
    ) -> bool:
        """Resume the saved memory; return False if that failed and the machine must boot."""
        suspension.clear(self._path / files.SUSPENDED)
        try:
            await self._launch(machine, suspended.instance_id, resume=True)
            assert self._qmp is not None
            await suspension.forget(self._qmp, self._path)
        except HostError as error:
            self._context.warn(f"the machine could not be resumed and boots instead: {error}")
            await self.stop(grace_s=0)
            await disks.discard_memory(self._path / files.DISK)
            return False
        return True

    async def _boot(self, machine: arguments.EmulatorOptions) -> None:
        disk = self._path / files.DISK
        if self._template.disk > (await disks.inspect(disk)).virtual_bytes:
            await disks.grow(disk, self._template.disk)
        instance_id = f"iid-{os.urandom(8).hex()}"
        await asyncio.to_thread(self._write_cidata, instance_id)
        await self._launch(machine, instance_id)

    def _write_cidata(self, instance_id: str) -> None:
        template = self._template
        shares: Sequence[cidata.Share] = ()
        if template.mounts:
            shares = mounts.mounted_by_guest(template.mounts, self._mount_kind())
        keys = ssh.public_keys(
            self._home, self._path.parent, load_user_keys=template.ssh.load_dot_ssh_pub_keys
        )
        guest = cidata.Guest(
            name=self._directory.name,
            instance_id=instance_id,
            keys=keys,
            mac=self._mac(),
            shares=shares,
            environment=self._context.environment,
        )
        try:
            content = cidata.disk(template, guest)
        except OSError as error:
            raise HostError.from_os(f'read "{error.filename}"', error) from error
        write_atomically(self._path / files.CIDATA, content, durable=False)

    async def _launch(
        self, machine: arguments.EmulatorOptions, instance_id: str, *, resume: bool = False
    ) -> None:
        """Start the emulator and connect to its control socket. Raises HostError."""
        helpers: tuple[Identity, ...] = ()
        if any(share.kind == mounts.VIRTIOFS for share in machine.shares):
            helpers = await mounts.start_virtiofs(
                self._path, self._template.mounts, self._context.environment
            )
        self._save(files.QemuMachineState(machine.ssh_port, instance_id, (), helpers))
        command = arguments.command(self._template, machine, mac=self._mac(), resume=resume)
        self._child = _spawn(command, self._path)
        self._process = identity(self._child.pid)
        if self._process is not None:
            write_pid_file(self._directory.pid_file(self.name), self._process)
        self._qmp = await self._connect(_LOAD_S if resume else _CONNECT_S)
        self._memory.start()
        target = self._connection.target
        config = target.config(self._directory.name)
        write_atomically(self._directory.ssh_config, config, durable=False)

    async def _connect(self, timeout_s: float) -> Qmp:
        """Connect to the emulator. Raises HostError, with the reason if the emulator ended."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if self._child is not None and self._child.poll() is not None:
                        raise HostError(self._end_reason())
                    try:
                        return await Qmp.connect(
                            self._path / files.QMP_SOCKET, on_event=self._on_event
                        )
                    except QmpError:
                        await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise HostError(f"qemu does not respond within {timeout_s:g} s") from None

    def _on_event(self, event: QmpEvent) -> None:
        if event["event"] == "SHUTDOWN":
            self._shutdown = event
        self._host_space.on_event(event)

    async def adopt(self) -> bool:
        process = live_process(
            self._directory.pid_file(self.name), self._directory.identity_file(self.name)
        )
        previous = files.read_state(self._directory)
        if process is None or previous is None:
            return False
        self._process = process
        self._state = previous
        self._qmp = await self._connect(_CONNECT_S)
        await suspension.forget(self._qmp, self._path)
        self._host_space.check()
        await self.pausing.resume()  # a stopped ssh cannot be adopted
        await self._connection.adopt(previous.forwards)
        self._memory.start()
        return True

    async def wait_ended(self) -> str:
        while True:
            if problem := await self._suspension.wait_over():
                return problem
            process = self._process
            if process is not None:
                await wait_ended(process)
            if process is self._process and not self._suspension.is_suspended:
                return self._end_reason()

    def _end_reason(self) -> str:
        data = (self._shutdown or {}).get("data", {})
        reasons = {
            "guest-shutdown": "the guest has shut itself down",
            "guest-reset": "the guest has restarted itself",
            "guest-panic": "the guest has crashed",
        }
        if reason := reasons.get(str(data.get("reason"))):
            last = files.tail(self._path / files.SERIAL_LOG, 2)
            return f"{reason}; last lines of its console: {last}" if last else reason
        how = "qemu has ended"
        code = self._child.poll() if self._child is not None else None
        if code is not None and code < 0:
            how = f"qemu was killed by {signal.Signals(-code).name}"
        elif code is not None:
            how = f"qemu ended with exit status {code}"
        output = files.tail(self._path / files.LOG)
        return f"{how}: {output}" if output else how

    async def stop(self, *, grace_s: float) -> None:
        process = self._process
        self._close_parts()
        await self._memory.stop()
        await self._connection.stop_reconnecting()  # the loss of the connection is expected now
        if process is not None and is_alive(process) and grace_s > 0:
            with suppress(HostError):
                if self._qmp is not None:
                    await self._qmp.execute("system_powerdown", timeout_s=min(5.0, grace_s))
                    await ended_within(process, grace_s)
        with suppress(HostError):
            await self._forwards.close()
            await self._connection.close()
        await self.end_emulator()
        await cleanup(self._directory)
        for item in self._template.copy_to_host:
            if item.delete_on_stop:
                remove(Path(item.host))

    async def end_emulator(self) -> None:
        """End the process, by force if necessary."""
        self._memory.given_back()
        process, self._process = self._process, None
        if self._qmp is not None:
            if process is not None and is_alive(process):
                with suppress(HostError):  # `quit` flushes the emulator's caches
                    await self._qmp.execute("quit", timeout_s=_QUIT_S)
                    await ended_within(process, _QUIT_S)
            await self._qmp.close()
            self._qmp = None
        if process is not None and is_alive(process):
            send_signal(process, signal.SIGKILL)
            await wait_ended(process)
        if self._child is not None:
            self._child.wait()
            self._child = None

    async def suspend(self) -> None:
        """Save the memory in the disk and pause the machine; the agent then stops it.

        Raises HostError; the machine runs on.
        """
        if self._qmp is None or self._process is None:
            raise HostError("the machine does not run")
        if problem := self.suspend_problem():
            raise HostError(f"the machine cannot be suspended: {problem}")
        _, kind = await self._options()
        suspended = suspension.Suspended(kind, self._state.instance_id)
        await suspension.save(self._qmp, self._path, suspended)

    def suspend_problem(self) -> str:
        """Return why the memory cannot be saved; empty if it can. Raises HostError."""
        kind = self._mount_kind() if self._template.mounts else mounts.SSHFS
        if kind == mounts.SSHFS:
            return ""
        return (
            f"the state of its {kind} mounts cannot be saved; use mountType {mounts.SSHFS}, "
            "or no mounts"
        )

    async def grow_disk(self, size_bytes: int) -> None:
        """Grow the disk of the running guest. Raises HostError."""
        if self._qmp is None:
            raise HostError("the machine does not run")
        await growth.grow(self._qmp, self._connection, size_bytes)

    def _close_parts(self) -> None:
        for part in (self._clock, self._disk, self._mount_events, self._host_space):
            part.close()

    async def detach(self) -> None:
        """Leave emulator and connection running for another agent."""
        self._close_parts()
        await self._memory.stop()
        await self._forwards.close()
        self._suspension.detach()
        await self._connection.detach()
        if self._qmp is not None:
            await self._qmp.close()
            self._qmp = None
        if self._child is not None:
            self._child.returncode = 0  # otherwise Popen warns about a running child
            self._child = None

    # -- the guest

    def requirements(self) -> Sequence[Requirement]:
        checks = GuestRequirements(
            self._connection,
            self._template,
            instance_id=self._state.instance_id,
            degrade=self._context.degrade,
        )
        shared: Sequence[Requirement] = ()
        if self._template.mounts and self._mount_kind() == mounts.SSHFS:
            shared = self._sshfs.requirements(self._template.mounts)
        return checks.requirements(after_ssh=self._after_ssh, mounts=shared)

    async def _after_ssh(self) -> None:
        if self._is_resumed:
            self._is_resumed = False
            await self._clock.set()

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        command = self._connection.target.command(listening.LOOP, ControlMaster="no")
        watching = listening.watch(
            command,
            on_clock=self._clock.compare,
            on_disk=self._disk.measured,
            on_mounted=self._mount_events.mounted,
            on_line=self._record_sign_of_life,
            reachable=self._suspension.wait_over,
        )
        async for found in watching:
            yield found

    def _record_sign_of_life(self) -> None:
        self._last_sign = asyncio.get_running_loop().time()
        self._clock.sign_of_life()

    async def interrupted(self) -> None:
        """Called before a pause or a suspension."""
        await self._memory.stop()

    def continued(self) -> None:
        """Called after a pause or a suspension."""
        self._shutdown = None
        self._record_sign_of_life()  # a pause is no silence
        self._clock.set_soon()
        self._memory.start()

    @property
    def liveness(self) -> LivenessProbe | None:
        return LivenessProbe("the guest", GUEST_HUNG, self._check_alive)

    async def _check_alive(self) -> None:
        silent_s = asyncio.get_running_loop().time() - self._last_sign
        if self._last_sign and silent_s > _SILENCE_S:
            raise Unmet(f"the guest has been silent for {silent_s:.0f} s")

    async def open_forward(self, forward: Forward) -> None:
        await self._forwards.open_forward(forward)

    async def close_forward(self, forward: Forward) -> None:
        await self._forwards.close_forward(forward)

    # -- state

    def _mount_kind(self) -> str:
        return mounts.kind_of(self._template, self._context.environment)

    def _mac(self) -> str:
        return arguments.mac_address(self._directory.name, self._path)

    def _save(self, state: files.QemuMachineState) -> None:
        self._state = state
        files.write_state(self._directory, state)

    def _add_helper(self, helper: Identity) -> None:
        alive = tuple(one for one in self._state.helpers if is_alive(one))
        self._save(replace(self._state, helpers=(*alive, helper)))


def _spawn(command: Sequence[str], directory: Path) -> "subprocess.Popen[bytes]":
    log = directory / files.LOG
    for path in (directory / files.QMP_SOCKET, log):
        remove(path)
    return spawn_into_log(command, log)
