# SPDX-License-Identifier: Apache-2.0
"""A machine whose guest is suspended while it is idle: it has no emulator, and counts as running.

    running ──memory saved──► no emulator ──first byte of a client──► memory loaded, connected

Meanwhile this process represents the machine: its pid is in the pid file of the driver, it holds
the port of ssh, and its relays hold clients. If it ends, the next start finds the saved memory and
resumes it, like that of a machine that a user has suspended.

A user who suspends a machine accepts that its mounts are made again afterwards. Containers keep the
old ones, which are dead then, so an idle guest with mounts is not suspended.

A guest whose memory cannot be loaded is lost: the machine ends with the reason, and its
controller starts it again.
"""

import asyncio
import socket
from typing import Protocol

from rdd.host.errors import HostError
from rdd.host.processes import own_identity
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.qemu import files, ssh_port
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.drivers.qemu.qmp import Qmp
from rdd.vm.drivers.qemu.teardown import cleanup
from rdd.vm.process_files import write_pid_file

_CONNECT_S = 60.0


class Emulator(Protocol):
    """The emulator of a machine, started and ended by its driver."""

    @property
    def qmp(self) -> Qmp | None:
        """The control connection; None without an emulator."""

    def suspend_problem(self) -> str:
        """Return why the memory cannot be saved; empty if it can. Raises HostError."""

    async def suspend(self) -> None:
        """Stop the CPUs and save the memory. Raises HostError; the guest then runs on."""

    async def end_emulator(self) -> None:
        """End the process."""

    async def load_memory(self) -> None:
        """Start the emulator with the saved memory. Raises HostError."""

    async def interrupted(self) -> None:
        """Called before a pause or a suspension."""

    def continued(self) -> None:
        """Called after a pause or a suspension."""


class IdleSuspension:
    """Implements `SuspendableGuest`."""

    def __init__(
        self, context: DriverContext, emulator: Emulator, connection: GuestConnection
    ) -> None:
        self._context = context
        self._emulator = emulator
        self._connection = connection
        self._is_over = asyncio.Event()
        self._is_over.set()
        self._lost = ""
        self._port: socket.socket | None = None

    @property
    def qmp(self) -> Qmp | None:
        return self._emulator.qmp

    @property
    def is_suspended(self) -> bool:
        return not self._is_over.is_set()

    async def wait_over(self) -> str:
        """Wait until the guest is not suspended; return why it is lost, or ""."""
        await self._is_over.wait()
        return self._lost

    def suspend_problem(self) -> str:
        try:
            problem = self._emulator.suspend_problem()
        except HostError as error:
            return str(error)
        if not problem and self._context.template.mounts:
            return "its mounts would be disconnected, also from running containers"
        return problem

    async def interrupted(self) -> None:
        await self._emulator.interrupted()

    def continued(self) -> None:
        self._emulator.continued()

    async def suspend_idle(self) -> None:
        await self._emulator.suspend()
        self._is_over.clear()  # from here on the end of the emulator is expected
        directory = self._context.directory
        try:
            await self._connection.suspend()
            await self._emulator.end_emulator()
            await cleanup(directory)
            write_pid_file(directory.pid_file(files.NAME), own_identity())
        except HostError as error:  # the memory is saved, only traces are left
            self._context.warn(f"after the suspension: {error}")
        self._port = ssh_port.hold(self._connection.target.port)

    async def resume_idle(self) -> None:
        if self._lost:
            raise HostError(self._lost)
        self._release_port()
        try:
            await self._emulator.load_memory()
            await self._connection.resume(timeout_s=_CONNECT_S)
        except HostError as error:
            self._lost = f"the suspended guest is lost: {error}"
            raise
        finally:
            self._is_over.set()
        self._emulator.continued()

    def detach(self) -> None:
        """Leave a suspended guest to the next start."""
        self._release_port()

    def _release_port(self) -> None:
        if self._port is not None:
            self._port.close()
            self._port = None
