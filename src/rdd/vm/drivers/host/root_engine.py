# SPDX-License-Identifier: Apache-2.0
"""An engine run by root, in namespaces of its own.

The agent makes the namespaces and the veth, starts the services inside, opens the way out,
and resolves names for them. All but the last two goes on without the agent; one that takes
over does them again.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.exits import ended_within, wait_ended
from rdd.host.files import read_text, remove, write_atomically
from rdd.host.logs import rotate
from rdd.host.processes import Identity, send_signal
from rdd.vm.drivers.host import dns, docker_api, k3s, network, services, teardown, unhandled_signals
from rdd.vm.drivers.host.commands import find
from rdd.vm.drivers.host.listeners import ListenerWatch, readable
from rdd.vm.drivers.host.network import VethPair
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.sandbox import NamespaceBuilder, Sandbox
from rdd.vm.drivers.host.services import EngineNetwork, Service
from rdd.vm.drivers.host.state import HostMachineState
from rdd.vm.drivers.protocol import DriverContext, Endpoint, Listener, Unmet
from rdd.vm.process_files import live_process, write_pid_file

_RTMGRP_IPV4_ROUTE = 0x40
_ROUTES_SETTLE_S = 0.5
_ENGINE_HEARS_S = 0.3
"""After this a container that ends is not restarted: the engine knows that it is to stop."""
_SHUTDOWN_S = 15.0
"""What dockerd takes at most to stop its containers."""
_LOG_LINES = 3
_LOG_TAIL_BYTES = 8 << 10


class RootEngine:
    """The engine of one machine. Made for one start or take-over."""

    def __init__(self, context: DriverContext, paths: MachinePaths, engine: str) -> None:
        self._context = context
        self._paths = paths
        self._engine = engine
        self._record: HostMachineState | None = None
        self._sandbox: Sandbox | None = None
        self._relay: dns.DnsRelay | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Future[None] | None = None

    @property
    def is_docker(self) -> bool:
        """Whether the engine speaks Docker's API."""
        return self._engine == "moby"

    async def start(self) -> None:
        """Make the namespaces and start the services in them. Raises HostError."""
        making = asyncio.create_task(asyncio.to_thread(self._make), name="make namespaces")
        try:
            process, record = await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.wait({making})  # a thread cannot be stopped; whoever stops us cleans up
            raise
        await self._attach(process, record)

    async def adopt(self) -> bool:
        """Take over what another agent started; False when nothing of it lives."""
        process = live_process(self._paths.pid_file, self._paths.identity_file)
        record = HostMachineState.read(self._paths.record)
        if process is None or record is None or record.engine != self._engine:
            return False
        if record.state == "stopping":
            await ended_within(process, _SHUTDOWN_S)
        if record.state != "running":
            return False
        await self._attach(process, record)
        return True

    def _make(self) -> tuple[Identity, HostMachineState]:
        paths, name = self._paths, self._context.directory.name
        for directory in (paths.staging, self._context.directory.sockets):
            make_private_dir(directory)
        remove(paths.ended)
        builder = NamespaceBuilder(paths, name)
        try:
            process = builder.wait()
            write_pid_file(paths.pid_file, process)
            veth = network.create_veth(paths, process.pid)
            record = HostMachineState(
                engine=self._engine,
                mode="root",
                host_ip=veth.host_ip,
                guest_ip=veth.guest_ip,
                sockets=tuple(str(path) for path in self._outer_sockets()),
                state="starting",
            )
            record.write(paths.record)
            started = [self._service(veth)]
            if (cluster := self._kubernetes()) is not None:
                started.append(cluster)
            for service in started:
                files = {paths.config(service.name): service.config, **service.files}
                for path, text in files.items():
                    write_atomically(path, text, durable=False)
                rotate(paths.directory.path, service.name, create=False)
            builder.start_services(
                {
                    "resolv_conf": dns.inside_text(veth.guest_ip),
                    "ip": network.configuration(veth),
                    "ended": str(paths.ended),
                    "services": [_as_plan(service, paths) for service in started],
                }
            )
            record = replace(record, state="running")
            record.write(paths.record)
            return process, record
        except BaseException:
            if builder.process is not None:
                send_signal(builder.process, signal.SIGKILL)
            raise
        finally:
            builder.close()

    def _service(self, veth: VethPair) -> Service:
        environment = self._context.environment
        program = find("dockerd" if self.is_docker else "containerd", environment)
        if program is None:
            raise HostError(f"the program of the engine {self._engine} is not installed")
        if not self.is_docker:
            return services.containerd(self._paths, program=program, environment=environment)
        used = network.used_networks(network.routes())
        engine_network = EngineNetwork(
            nameserver=veth.guest_ip,
            gateway=veth.host_ip,
            pools=network.container_pools(used),
        )
        return services.moby(
            self._paths,
            self._context.template,
            engine_network,
            program=program,
            environment=environment,
        )

    def _kubernetes(self) -> Service | None:
        template, environment = self._context.template, self._context.environment
        found = k3s.k3s(self._paths, template, environment=environment)
        if found is None and k3s.is_wanted(template):
            release = template.param.get("KUBERNETES_RELEASE", "")
            self._context.warn(k3s.missing_k3s(release, environment))
        return found

    def _outer_sockets(self) -> list[Path]:
        """The sockets on this machine that the engine itself listens on."""
        if self.is_docker:
            return services.docker_sockets(self._context.template)
        return [self._context.directory.sockets / services.CONTAINERD_SOCKET]

    async def _attach(self, process: Identity, record: HostMachineState) -> None:
        """Do for the namespaces what does not go on without an agent."""
        self._record = record
        self._sandbox = sandbox = Sandbox(process)
        names = dns.known_names(self._context.template.host_resolver.hosts, record.host_ip)
        self._relay = dns.DnsRelay(sandbox, record.guest_ip, names)
        try:
            await self._relay.start()
        except OSError as error:
            self._context.degrade(f"containers cannot resolve names: {error.strerror or error}")
        self._tasks.append(asyncio.create_task(self._keep_way_out(), name="way out"))

    async def _keep_way_out(self) -> None:
        """Open the way out, and again whenever the routes of this machine change."""
        changed = asyncio.Event()
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK) as routes:
            routes.bind((0, _RTMGRP_IPV4_ROUTE))
            with readable(routes, changed.set):
                while True:
                    try:
                        self._opening = asyncio.ensure_future(asyncio.to_thread(self._open_way_out))
                        await asyncio.shield(self._opening)
                    except HostError as error:
                        self._context.warn(f"containers cannot reach other networks: {error}")
                    await changed.wait()
                    await asyncio.sleep(_ROUTES_SETTLE_S)
                    changed.clear()

    def _open_way_out(self) -> None:
        record = self._record
        assert record is not None
        veth = VethPair(self._paths.link, record.host_ip, record.guest_ip)
        uplinks = network.wanted_uplinks(self._paths, record.uplinks)
        if uplinks != record.uplinks:
            self._record = replace(record, uplinks=uplinks)
            self._record.write(self._paths.record)
        network.enable_egress(self._paths, veth, uplinks)

    async def check(self) -> None:
        """Raise Unmet unless the engine answers where clients expect it."""
        assert self._sandbox is not None
        try:
            if self.is_docker:
                inner = self._sandbox.path(services.DOCKER_SOCKET)
                await docker_api.get(inner, "/_ping")
            for path in self._outer_sockets():
                _, writer = await asyncio.open_unix_connection(str(path))
                writer.close()
                path.chmod(0o600)
        except (OSError, docker_api.BadAnswer) as error:
            raise Unmet(f"the engine does not answer yet: {error}") from error

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """The ports listened on in the network of the engine."""
        assert self._sandbox is not None
        assert self._record is not None
        own = [
            Listener("udp", self._record.guest_ip, dns.PORT),
            Listener("tcp", self._record.guest_ip, dns.PORT),
        ]
        docker = self._sandbox.path(services.DOCKER_SOCKET) if self.is_docker else None
        watch = ListenerWatch(self._sandbox, docker_socket=docker, without=own)
        async for found in watch.listeners():
            yield found

    async def dial(self, endpoint: Endpoint, kind: int) -> socket.socket:
        """A socket connected to something inside. Raises OSError."""
        assert self._sandbox is not None
        assert self._record is not None
        loop = asyncio.get_running_loop()
        if endpoint.socket:
            sock = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
            target: str | tuple[str, int] = str(self._sandbox.path(endpoint.socket))
        else:
            # With its own address the engine needs no process between us and the container;
            # only what listens on the loopback needs to be asked there.
            ip = self._record.guest_ip if endpoint.ip in ("0.0.0.0", "::") else endpoint.ip
            family = socket.AF_INET6 if ":" in ip else socket.AF_INET
            sock = self._sandbox.socket(family, kind)
            target = (ip, endpoint.port)
        try:
            await loop.sock_connect(sock, target)
        except BaseException:
            sock.close()
            raise
        return sock

    async def wait_ended(self) -> str:
        """Wait until a service or the whole has ended; why."""
        assert self._sandbox is not None
        await wait_ended(self._sandbox.process)
        return self._why()

    def _why(self) -> str:
        name, _, how = (read_text(self._paths.ended) or "").strip().partition(" ")
        if not name:
            return "the process that holds the namespaces of the engine was killed"
        tail = _last_lines(self._paths.log(name))
        return f"{name} ended with {how}" + (f": {' / '.join(tail)}" if tail else "")

    async def stop(self, *, grace_s: float) -> None:
        """Stop the services, by force after a while, and remove what is left."""
        process = live_process(self._paths.pid_file, self._paths.identity_file)
        try:
            if process is not None and grace_s > 0:
                await self._shut_down(process, grace_s)
        finally:
            await self.detach()
            await teardown.cleanup(self._context.directory)

    async def _shut_down(self, process: Identity, grace_s: float) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_s
        signals: dict[int, int] = {}
        if self.is_docker and self._sandbox is not None:
            signals = await unhandled_signals.stop_signals(
                self._sandbox.path(services.DOCKER_SOCKET)
            )
        await self._end_tasks()
        if self._record is not None:
            with contextlib.suppress(HostError):  # a full disk must not keep it running
                replace(self._record, state="stopping").write(self._paths.record)
        send_signal(process, signal.SIGTERM)
        if signals and not await ended_within(process, _ENGINE_HEARS_S):
            unhandled_signals.kill_containers_without_handler(process.pid, signals)
        await ended_within(process, max(0, end - loop.time()))

    async def detach(self) -> None:
        """Stop doing things for the namespaces."""
        await self._end_tasks()
        if self._relay is not None:
            await self._relay.close()
        if self._sandbox is not None:
            self._sandbox.close()

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        if self._opening is not None:  # a thread that must not open what is being closed
            await asyncio.gather(self._opening, return_exceptions=True)


def _as_plan(service: Service, paths: MachinePaths) -> dict[str, object]:
    return {
        "name": service.name,
        "argv": [str(service.program), *service.arguments],
        "environment": dict(service.environment),
        "log": str(paths.log(service.name)),
    }


def _last_lines(path: Path) -> list[str]:
    """The last lines of a log that tell of trouble."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - _LOG_TAIL_BYTES))
        lines = (
            file.read().decode("utf-8", "replace").splitlines()[1 if end > _LOG_TAIL_BYTES else 0 :]
        )
        return [line.strip() for line in lines if line.strip() and not _is_chatter(line)][
            -_LOG_LINES:
        ]
    return []


def _is_chatter(line: str) -> bool:
    return any(f"level={level}" in line for level in ("debug", "info", "warning"))
