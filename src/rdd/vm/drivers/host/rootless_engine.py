# SPDX-License-Identifier: Apache-2.0
"""An engine of an ordinary user: dockerd under RootlessKit.

RootlessKit creates the same namespaces as `enter.py` does for root, in a user namespace,
connects them through slirp4netns or pasta, and forwards published ports itself. Its process
represents the machine. This does not work on hosts that reserve /dev/net/tun for root
(docs/host-driver.md).
"""

import asyncio
import shlex
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.exits import ended_within, wait_ended
from rdd.host.files import write_atomically
from rdd.host.logs import rotate
from rdd.host.processes import Identity, identity, send_signal
from rdd.host.spawn import spawn_detached
from rdd.vm.drivers.host import docker_api, limits, services, teardown
from rdd.vm.drivers.host.availability import rootless_network
from rdd.vm.drivers.host.commands import find, search_path
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.drivers.host.services import EngineNetwork, Service
from rdd.vm.drivers.host.state import HostMachineState
from rdd.vm.drivers.protocol import DriverContext, Endpoint, Listener, PortPublisher, Unmet
from rdd.vm.process_files import live_process, write_pid_file
from rdd.vm.resource_limits import ResourceLimits

# Entries of the system's engines in RootlessKit's copy of /run.
_FOREIGN = (
    "/run/docker /run/docker.sock /run/docker.pid /run/containerd /run/runc /run/xtables.lock"
)


class RootlessEngine:
    """The rootless engine of one machine, for one start or adoption."""

    def __init__(self, context: DriverContext, paths: MachinePaths) -> None:
        self._context = context
        self._paths = paths
        self._process: Identity | None = None

    @property
    def is_docker(self) -> bool:
        """Always: only dockerd runs rootless."""
        return True

    async def start(self) -> None:
        """Start RootlessKit with the engine. Raises HostError."""
        environment = self._context.environment
        program = find("dockerd", environment)
        if program is None:
            raise HostError("dockerd is not installed")
        if not self._sockets():
            raise HostError("the template forwards no Docker socket: dockerd would be unreachable")
        service = services.moby(
            self._paths,
            self._context.template,
            EngineNetwork(is_rootless=True),
            program=program,
            environment=environment,
        )
        make_private_dir(self._state)
        make_private_dir(self._context.directory.sockets)
        files = {self._paths.config(service.name): service.config, **service.files}
        for path, text in files.items():
            write_atomically(path, text, durable=False)
        log = rotate(self._paths.directory.path, service.name)
        words, enforced = limits.scope(self._context, self._paths)
        state = HostMachineState(
            engine="moby",
            mode="rootless",
            sockets=tuple(map(str, self._sockets())),
            limits=enforced,
        )
        state.write(self._paths.state_file)
        process = spawn_detached(
            [*words, *command(service, self._state, environment)],
            environment={**environment, "PATH": search_path(environment)},
            directory=self._paths.directory.path,
            stdout=log,
            stderr=log,
        )
        self._process = identity(process.pid)
        if self._process is None:
            raise HostError(f'rootlesskit ended at once; see "{log}"')
        write_pid_file(self._paths.pid_file, self._process)
        limits.report(self._context, enforced)

    async def adopt(self) -> bool:
        self._process = live_process(self._paths.pid_file, self._paths.identity_file)
        if self._process is None:
            return False
        state = HostMachineState.read(self._paths.state_file)
        limits.report(self._context, state.limits if state is not None else ResourceLimits())
        return True

    @property
    def _state(self) -> Path:
        return self._paths.directory.path / "rootlesskit"

    def _sockets(self) -> list[Path]:
        return services.docker_sockets(self._context.template)

    async def check(self) -> None:
        try:
            for path in self._sockets():
                await docker_api.get(path, "/_ping")
                path.chmod(0o600)
        except (OSError, docker_api.BadAnswer) as error:
            raise Unmet(f"the engine does not respond yet: {error}") from error

    async def check_alive(self) -> None:
        try:
            await docker_api.get(self._sockets()[0], "/_ping")
        except (OSError, docker_api.BadAnswer) as error:
            raise Unmet(str(error)) from error

    async def listeners(self) -> AsyncIterator[frozenset[Listener]]:
        """Yield nothing: RootlessKit forwards published ports."""
        yield frozenset()

    async def serve_publications(self, publisher: PortPublisher) -> None:
        """Do nothing: RootlessKit has a proxy of its own, with the same effect."""
        await asyncio.sleep(0)

    async def dial(self, endpoint: Endpoint, kind: int) -> socket.socket:
        """Raise OSError: only RootlessKit can connect into its namespaces."""
        raise OSError(f"{endpoint} is in the namespaces of RootlessKit and cannot be dialled")

    async def wait_ended(self) -> str:
        assert self._process is not None
        await wait_ended(self._process)
        return f'rootlesskit ended; see "{self._paths.log("dockerd")}"'

    async def stop(self, *, grace_s: float) -> None:
        process = live_process(self._paths.pid_file, self._paths.identity_file)
        try:
            if process is not None and grace_s > 0:
                send_signal(process, signal.SIGTERM)
                await ended_within(process, grace_s)
        finally:
            await teardown.cleanup(self._context.directory)

    async def detach(self) -> None:
        """Do nothing: a rootless engine does not depend on the agent."""
        await asyncio.sleep(0)


def command(service: Service, state: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the command line of RootlessKit."""
    network = rootless_network(environment)
    ports = "implicit" if network == "pasta" else "builtin"
    words = [str(service.program), "--rootless", *service.arguments]
    proxy = find("rootlesskit-docker-proxy", environment)
    if proxy is not None and network != "pasta":
        words += ["--userland-proxy-path", str(proxy)]
    return [
        str(find("rootlesskit", environment) or "rootlesskit"),
        f"--state-dir={state}",
        f"--net={network}",
        "--mtu=65520",
        "--disable-host-loopback",
        f"--port-driver={ports}",
        "--copy-up=/etc",
        "--copy-up=/run",
        "--propagation=rslave",
        "--pidns",
        "sh",
        "-c",
        # dockerd requires the variable, which only a login through systemd sets.
        f"rm -f {_FOREIGN}; export XDG_RUNTIME_DIR=/run; exec {shlex.join(words)}",
    ]
