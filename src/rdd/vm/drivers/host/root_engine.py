# SPDX-License-Identifier: Apache-2.0
"""An engine that runs as root, in namespaces of its own.

The agent creates the namespaces and the veth pair, starts the services inside, enables egress
and relays DNS. Egress and DNS depend on an agent; everything else runs on without one. An
agent that adopts the machine sets up both again.
"""

import asyncio
import contextlib
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
from rdd.vm.drivers.host import (
    containerd_api,
    dns,
    docker_api,
    k3s,
    limits,
    network,
    publications,
    services,
    teardown,
    unhandled_signals,
)
from rdd.vm.drivers.host.commands import find
from rdd.vm.drivers.host.listeners import ListenerWatch, readable
from rdd.vm.drivers.host.network import VethPair
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.sandbox import NamespaceBuilder, Sandbox
from rdd.vm.drivers.host.services import EngineNetwork, Service
from rdd.vm.drivers.host.state import HostMachinePhase, HostMachineState
from rdd.vm.drivers.protocol import DriverContext, Endpoint, Listener, PortPublisher, Unmet
from rdd.vm.log_tail import last_lines
from rdd.vm.process_files import live_process, write_pid_file

_RTMGRP_IPV4_ROUTE = 0x40
_ROUTES_SETTLE_S = 0.5
_STOP_NOTICED_S = 0.3
"""Time for the engine to enter its shutdown; from then on it restarts no container."""
_SHUTDOWN_S = 15.0
"""The longest time that dockerd takes to stop its containers."""
_LOG_LINES = 3
_LOG_TAIL_BYTES = 8 << 10


class RootEngine:
    """The engine of one machine, for one start or adoption."""

    def __init__(self, context: DriverContext, paths: MachinePaths, engine: str) -> None:
        self._context = context
        self._paths = paths
        self._engine = engine
        self._state: HostMachineState | None = None
        self._sandbox: Sandbox | None = None
        self._relay: dns.DnsRelay | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._egress_change: asyncio.Future[None] | None = None

    @property
    def is_docker(self) -> bool:
        return self._engine == "moby"

    async def start(self) -> None:
        """Create the namespaces and start the services in them. Raises HostError."""
        creating = asyncio.create_task(asyncio.to_thread(self._create), name="create namespaces")
        try:
            process, state = await asyncio.shield(creating)
        except asyncio.CancelledError:
            await asyncio.wait({creating})  # a thread cannot be cancelled; `stop` cleans up
            raise
        await self._attach(process, state)

    async def adopt(self) -> bool:
        process = live_process(self._paths.pid_file, self._paths.identity_file)
        state = HostMachineState.read(self._paths.state_file)
        if process is None or state is None or state.engine != self._engine:
            return False
        if state.phase is HostMachinePhase.STOPPING:
            await ended_within(process, _SHUTDOWN_S)
        if state.phase is not HostMachinePhase.RUNNING:
            return False
        await self._attach(process, state)
        return True

    def _create(self) -> tuple[Identity, HostMachineState]:
        paths, name = self._paths, self._context.directory.name
        for directory in (paths.staging, self._context.directory.sockets):
            make_private_dir(directory)
        remove(paths.ended)
        builder = NamespaceBuilder(paths, name)
        try:
            process = builder.wait()
            write_pid_file(paths.pid_file, process)
            veth = network.create_veth(paths, process.pid)
            group = limits.enter_group(self._context, paths, process.pid)
            state = HostMachineState(
                engine=self._engine,
                mode="root",
                host_ip=veth.host_ip,
                guest_ip=veth.guest_ip,
                sockets=tuple(str(path) for path in self._outer_sockets()),
                phase=HostMachinePhase.STARTING,
                limits=group.limits,
            )
            state.write(paths.state_file)
            started = [self._service(veth, has_group=group.exists)]
            if (cluster := self._kubernetes()) is not None:
                started.append(cluster)
            for service in started:
                files = {paths.config(service.name): service.config, **service.files}
                for path, text in files.items():
                    write_atomically(path, text, durable=False)
                for path, source in service.links.items():
                    _link(source, path)
                rotate(paths.directory.path, service.name, create=False)
            builder.start_services(
                {
                    "resolv_conf": dns.resolv_conf_text(veth.guest_ip),
                    "ip": network.configuration(veth),
                    "cgroups": group.plan(),
                    "ended": str(paths.ended),
                    "services": [_as_plan(service, paths) for service in started],
                }
            )
            state = replace(state, phase=HostMachinePhase.RUNNING)
            state.write(paths.state_file)
            return process, state
        except BaseException:
            if builder.process is not None:
                send_signal(builder.process, signal.SIGKILL)
            raise
        finally:
            builder.close()

    def _service(self, veth: VethPair, *, has_group: bool) -> Service:
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
            # In a cgroup namespace the default is already below the machine's group.
            cgroup_parent="" if has_group else self._paths.cgroup,
            proxy=publications.write_proxy(self._paths, environment),
        )

    def _kubernetes(self) -> Service | None:
        template, environment = self._context.template, self._context.environment
        found = k3s.k3s_service(self._paths, template, environment=environment)
        if found is None and k3s.is_wanted(template):
            release = template.param.get("KUBERNETES_RELEASE", "")
            self._context.warn(k3s.missing_k3s(release, environment))
        return found

    def _outer_sockets(self) -> list[Path]:
        """Return the sockets on this host that the engine itself listens on."""
        if self.is_docker:
            return services.docker_sockets(self._context.template)
        return [self._context.directory.sockets / services.CONTAINERD_SOCKET]

    async def _attach(self, process: Identity, state: HostMachineState) -> None:
        """Set up what depends on an agent: DNS and egress."""
        self._state = state
        limits.report(self._context, state.limits)
        self._sandbox = sandbox = Sandbox(process)
        names = dns.static_names(self._context.template.host_resolver.hosts, state.host_ip)
        self._relay = dns.DnsRelay(sandbox, state.guest_ip, names)
        try:
            await self._relay.start()
        except OSError as error:
            self._context.degrade(f"containers cannot resolve names: {error.strerror or error}")
        self._tasks.append(asyncio.create_task(self._maintain_egress(), name="egress"))

    async def _maintain_egress(self) -> None:
        """Enable egress, again whenever the routes of this host change."""
        changed = asyncio.Event()
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK) as routes:
            routes.bind((0, _RTMGRP_IPV4_ROUTE))
            with readable(routes, changed.set):
                while True:
                    try:
                        self._egress_change = asyncio.ensure_future(
                            asyncio.to_thread(self._enable_egress)
                        )
                        await asyncio.shield(self._egress_change)
                    except HostError as error:
                        self._context.warn(f"containers cannot reach other networks: {error}")
                    await changed.wait()
                    await asyncio.sleep(_ROUTES_SETTLE_S)
                    changed.clear()

    def _enable_egress(self) -> None:
        state = self._state
        assert state is not None
        veth = VethPair(self._paths.link, state.host_ip, state.guest_ip)
        uplinks = network.wanted_uplinks(self._paths, state.uplinks)
        if uplinks != state.uplinks:
            self._state = replace(state, uplinks=uplinks)
            self._state.write(self._paths.state_file)
        network.enable_egress(self._paths, veth, uplinks)

    async def check(self) -> None:
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
            raise Unmet(f"the engine does not respond yet: {error}") from error

    async def check_alive(self) -> None:
        assert self._sandbox is not None
        try:
            if self.is_docker:
                await docker_api.get(self._sandbox.path(services.DOCKER_SOCKET), "/_ping")
            else:
                await containerd_api.ping(self._outer_sockets()[0])
        except (OSError, docker_api.BadAnswer) as error:
            raise Unmet(str(error)) from error

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        assert self._sandbox is not None
        assert self._state is not None
        own = [
            Listener("udp", self._state.guest_ip, dns.PORT),
            Listener("tcp", self._state.guest_ip, dns.PORT),
        ]
        docker = self._sandbox.path(services.DOCKER_SOCKET) if self.is_docker else None
        watch = ListenerWatch(self._sandbox, docker_socket=docker, without=own)
        async for found in watch.listeners():
            yield found

    async def serve_publications(self, publisher: PortPublisher) -> None:
        assert self._sandbox is not None
        assert self._state is not None
        await publications.serve(self._sandbox, self._state.guest_ip, publisher)

    async def dial(self, endpoint: Endpoint, kind: int) -> socket.socket:
        assert self._sandbox is not None
        assert self._state is not None
        loop = asyncio.get_running_loop()
        if endpoint.socket:
            sock = socket.socket(socket.AF_UNIX, kind | socket.SOCK_NONBLOCK)
            target: str | tuple[str, int] = str(self._sandbox.path(endpoint.socket))
        else:
            # The engine's own address reaches containers without a proxy process; only a
            # listener on the loopback must be dialled there.
            ip = self._state.guest_ip if endpoint.ip in ("0.0.0.0", "::") else endpoint.ip
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
        """Wait until a service or the whole machine has ended; return why."""
        assert self._sandbox is not None
        await wait_ended(self._sandbox.process)
        return self._end_reason()

    def _end_reason(self) -> str:
        name, _, how = (read_text(self._paths.ended) or "").strip().partition(" ")
        if not name:
            return "the first process of the engine's namespaces was killed"
        tail = _last_errors(self._paths.log(name))
        return f"{name} ended with {how}" + (f": {' / '.join(tail)}" if tail else "")

    async def stop(self, *, grace_s: float) -> None:
        """Stop the services, by force after `grace_s`, and clean up."""
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
        if self._state is not None:
            with contextlib.suppress(HostError):  # a full disk must not prevent the stop
                replace(self._state, phase=HostMachinePhase.STOPPING).write(self._paths.state_file)
        send_signal(process, signal.SIGTERM)
        if signals and not await ended_within(process, _STOP_NOTICED_S):
            unhandled_signals.kill_containers_without_handler(process.pid, signals)
        await ended_within(process, max(0, end - loop.time()))

    async def detach(self) -> None:
        """Stop DNS and egress maintenance; the engine runs on."""
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
        if self._egress_change is not None:  # its thread must not enable egress during the teardown
            await asyncio.gather(self._egress_change, return_exceptions=True)


def _link(source: Path, path: Path) -> None:
    """Make a file of this host available; the only one of its directory. Raises HostError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for other in path.parent.iterdir():
            other.unlink()
        try:
            path.hardlink_to(source)
        except OSError:  # another file system
            path.symlink_to(source)
    except OSError as error:
        raise HostError.from_os(f'create "{path}"', error) from error


def _as_plan(service: Service, paths: MachinePaths) -> dict[str, object]:
    return {
        "name": service.name,
        "argv": [str(service.program), *service.arguments],
        "environment": dict(service.environment),
        "log": str(paths.log(service.name)),
    }


def _last_errors(path: Path) -> list[str]:
    """Return the last lines of a log above the level of warnings."""
    lines = last_lines(path, max_bytes=_LOG_TAIL_BYTES)
    errors = [line.strip() for line in lines if line.strip() and not _is_unimportant(line)]
    return errors[-_LOG_LINES:]


def _is_unimportant(line: str) -> bool:
    return any(f"level={level}" in line for level in ("debug", "info", "warning"))
