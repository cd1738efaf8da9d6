# SPDX-License-Identifier: Apache-2.0
"""The driver `host` of one machine, as the host agent uses it.

A machine of this driver is the engine of the template, run as root or rootless, or no process
at all. Without an engine the agent represents the machine: it is also the driver process.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from rdd.host.errors import FailureReason, HostError
from rdd.host.files import remove
from rdd.host.processes import own_identity
from rdd.vm.drivers.host import teardown
from rdd.vm.drivers.host.availability import engine_availability
from rdd.vm.drivers.host.idle_detection.machine import HostIdle, unobservable
from rdd.vm.drivers.host.paths import NAME, MachinePaths
from rdd.vm.drivers.host.services import (
    DOCKER_SOCKET,
    docker_sockets,
    engine_of,
    in_run,
    missing_engine,
    with_engine,
)
from rdd.vm.drivers.pausing import Pausable
from rdd.vm.drivers.protocol import (
    DriverContext,
    Endpoint,
    Forward,
    ForwardError,
    Listener,
    LivenessProbe,
    MachineLifecycle,
    NotForwarded,
    PortPublisher,
    Requirement,
    RequirementPhase,
)
from rdd.vm.forwarding.datagrams import DatagramRelay
from rdd.vm.forwarding.sockets import (
    SocketInUse,
    check_length,
    clear_stale,
    listen_inet,
    listen_unix,
)
from rdd.vm.forwarding.streams import StreamRelay
from rdd.vm.idle.connections import PortObserver
from rdd.vm.problem import ADDRESS_IN_USE, ENGINE_HUNG
from rdd.vm.process_files import write_pid_file

_READY_TIMEOUT_S = 60.0
_READY_INTERVAL_S = 0.02


class HostEngine(MachineLifecycle, Protocol):
    """A container engine on this host."""

    @property
    def is_docker(self) -> bool:
        """Whether it has Docker's API."""

    async def check(self) -> None:
        """Raise Unmet unless the engine responds."""

    async def check_alive(self) -> None:
        """Raise Unmet unless the running engine responds to a request."""

    def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """Yield the listening ports inside, now and whenever the set changes."""

    async def serve_publications(self, publisher: PortPublisher) -> None:
        """Serve requests for published ports until cancelled. Raises HostError."""

    async def dial(self, endpoint: Endpoint, kind: int) -> socket.socket:
        """Connect to an endpoint inside. Raises OSError."""


class HostDriver:
    """Implements `Driver` and `HasPausing`."""

    def __init__(self, context: DriverContext) -> None:
        environment = with_engine(context.environment, context.template)
        self._context = context = replace(context, environment=environment)
        self._paths = MachinePaths(context.directory)
        self._engine_name = engine_of(context.template)
        self._engine: HostEngine | None = self._make_engine()
        self._idle_problem = unobservable(self._engine_name)
        self._idle = None if self._idle_problem else HostIdle(context, self._paths)
        self._relays: dict[Forward, StreamRelay | DatagramRelay] = {}
        self._port = _reserve_port(context.template.ssh.local_port)

    def _make_engine(self) -> HostEngine | None:
        if not self._engine_name:
            return None
        if os.geteuid() == 0:
            from rdd.vm.drivers.host.root_engine import RootEngine

            return RootEngine(self._context, self._paths, self._engine_name)
        from rdd.vm.drivers.host.rootless_engine import RootlessEngine

        return RootlessEngine(self._context, self._paths)

    @property
    def name(self) -> str:
        return NAME

    @property
    def ssh_local_port(self) -> int:
        """A reserved port without a listener: there is no sshd."""
        port: int = self._port.getsockname()[1]
        return port

    async def start(self) -> None:
        """Start the engine, if the template has one. Raises HostError."""
        self._warn_about_ignored_parts()
        if self._engine is None:
            write_pid_file(self._paths.pid_file, own_identity())
            return
        if problem := missing_engine(self._context.template):
            raise HostError(
                f"{problem}; to change that: rdd set containerEngine.version=",
                reason=FailureReason.NOT_INSTALLED,
            )
        answer = engine_availability(self._engine_name, self._context.environment)
        if not answer.usable:
            raise HostError(
                f"{answer.reason}; to change that: {answer.fix}",
                reason=answer.failure,
                remedy=answer.command,
            )
        await teardown.cleanup(self._context.directory)
        for path in docker_sockets(self._context.template) if self._engine.is_docker else ():
            check_length(path)
            clear_stale(path)
            _make_parent(path)
        await self._engine.start()

    def _warn_about_ignored_parts(self) -> None:
        template = self._context.template
        scripts = [item for item in template.provision if item.mode != "data"]
        if scripts:
            self._context.warn(
                f"{len(scripts)} provision scripts are ignored: the driver host has no guest "
                "and does not change this host"
            )
        if template.probes:
            self._context.warn(
                f"{len(template.probes)} probes are ignored: the driver host has no guest"
            )

    async def adopt(self) -> bool:
        if self._engine is None or not await self._engine.adopt():
            return False
        if self._idle is not None:
            self._idle.restore()
        return True

    def requirements(self) -> Sequence[Requirement]:
        """Return the requirement that the engine responds."""
        if self._engine is None:
            return ()
        return (
            Requirement(
                RequirementPhase.ESSENTIAL,
                "the container engine answers",
                self._engine.check,
                hint=f'see the logs in "{self._context.directory.path}"',
                interval_s=_READY_INTERVAL_S,
                timeout_s=_READY_TIMEOUT_S,
            ),
        )

    async def wait_ended(self) -> str:
        """Wait until the engine has ended; without one, forever."""
        if self._engine is None:
            never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            return await never
        return await self._engine.wait_ended()

    async def stop(self, *, grace_s: float) -> None:
        try:
            if self._idle is not None:
                await self._idle.close(is_final=True)
            if self._engine is not None:
                await self._engine.stop(grace_s=grace_s)
        finally:
            self._release()

    async def detach(self) -> None:
        if self._idle is not None:
            await self._idle.close(is_final=False)
        if self._engine is not None:
            await self._engine.detach()
        self._release()

    def _release(self) -> None:
        self._port.close()
        if self._engine is None:
            remove(self._paths.pid_file)
            remove(self._paths.identity_file)

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """Yield the listening ports in the network of the engine; nothing without an engine."""
        if self._engine is not None:
            async for found in self._engine.listeners():
                yield found

    @property
    def liveness(self) -> LivenessProbe | None:
        if self._engine is None:
            return None
        return LivenessProbe("the container engine", ENGINE_HUNG, self._engine.check_alive)

    async def serve_publications(self, publisher: PortPublisher) -> None:
        """Serve dockerd's requests for ports; nothing without an engine."""
        if self._engine is not None:
            await self._engine.serve_publications(publisher)

    @property
    def pausing(self) -> Pausable | str:
        return self._idle or self._idle_problem

    # -- forwards

    async def open_forward(self, forward: Forward) -> None:
        """Open a forward from this host into the network of the engine."""
        if forward.reverse:
            raise ForwardError(
                f"{forward.guest} cannot be forwarded in reverse: the driver host has no guest",
                permanent=True,
            )
        if in_run(forward.guest.socket) == DOCKER_SOCKET and self._engine is not None:
            if not self._engine.is_docker:
                raise NotForwarded(f"the engine {self._engine_name} has no Docker socket")
            return  # dockerd listens there itself, so clients survive a replaced agent
        try:
            relay = self._relay(forward)
            await relay.start()
        except SocketInUse as error:
            raise ForwardError(str(error), reason=ADDRESS_IN_USE) from error
        except HostError as error:
            raise ForwardError(str(error)) from error
        except OSError as error:
            raise ForwardError.from_os(f"cannot listen on {forward.host}", error) from error
        self._relays[forward] = relay

    def _relay(self, forward: Forward) -> StreamRelay | DatagramRelay:
        dial = self._engine.dial if self._engine is not None else _dial_host
        activity = self._idle.activity if self._idle is not None else None
        address = str(forward.host)
        if forward.host.socket:
            path = Path(forward.host.socket)
            _make_parent(path)
            listener = listen_unix(path)
            return StreamRelay(
                listener,
                partial(dial, forward.guest, socket.SOCK_STREAM),
                lambda: PortObserver(activity, address) if activity else None,
            )
        if forward.protocol == "udp":
            bound = listen_inet(forward.host, datagrams=True)
            return DatagramRelay(
                bound,
                partial(dial, forward.guest, socket.SOCK_DGRAM),
                observed=lambda: activity.touch(f"a client of {address}") if activity else None,
            )
        listener = listen_inet(forward.host)
        return StreamRelay(
            listener,
            partial(dial, forward.guest, socket.SOCK_STREAM),
            lambda: PortObserver(activity, address) if activity else None,
        )

    async def close_forward(self, forward: Forward) -> None:
        relay = self._relays.pop(forward, None)
        if relay is None:
            return
        await relay.close()
        if forward.host.socket:
            remove(Path(forward.host.socket))


async def _dial_host(endpoint: Endpoint, kind: int) -> socket.socket:
    """Connect to an endpoint on this host. Raises OSError."""
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in endpoint.ip else socket.AF_INET
    if endpoint.socket:
        family = socket.AF_UNIX
    sock = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    try:
        await loop.sock_connect(sock, endpoint.socket or (endpoint.ip, endpoint.port))
    except BaseException:
        sock.close()
        raise
    return sock


def _reserve_port(wanted: int) -> socket.socket:
    """Bind a port of the loopback without listening: connections are refused."""
    for port in dict.fromkeys((wanted, 0)):
        held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            held.bind(("127.0.0.1", port))
            return held
        except OSError as error:
            held.close()
            reason = error
    raise HostError.from_os("reserve a port on 127.0.0.1", reason)


def _make_parent(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HostError.from_os(f'create directory "{path.parent}"', error) from error
