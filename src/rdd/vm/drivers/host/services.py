# SPDX-License-Identifier: Apache-2.0
"""The services of a machine: container engines with their configuration.

The param `CONTAINER_ENGINE` selects the engine: `moby` is dockerd, which starts its own
containerd; `containerd` is containerd alone. Without it no engine runs. Each service is a
program with a configuration file of its own; the system's configuration of these programs is
never read. Paths below /run are those inside the namespaces.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rdd.vm.drivers.host import settings
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.template.model import Template

ENGINES = ("moby", "containerd")
DOCKER_SOCKET = "/run/docker.sock"
CONTAINERD_SOCKET = "containerd.sock"  # in the directory of forwarded sockets

# The variables of the daemon's environment that engines inherit.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Service:
    """A program that runs in the namespaces during the lifetime of the machine."""

    name: str
    program: Path
    arguments: Sequence[str]
    config: str
    """The text of its configuration file."""
    socket: str
    """The socket on which it responds when it is ready; /run is inside the namespaces."""
    environment: Mapping[str, str]
    files: Mapping[Path, str] = field(default_factory=dict)
    """Additional files that it reads."""
    links: Mapping[Path, Path] = field(default_factory=dict)
    """Large files that it reads, as links to files of this host."""


@dataclass(frozen=True, slots=True)
class EngineNetwork:
    """The network of the namespaces, for the configuration of an engine."""

    nameserver: str = ""
    gateway: str = ""
    """The address of this host for containers."""
    is_rootless: bool = False
    pools: Sequence[str] = ()
    """Networks for containers; empty: the engine's default."""


def engine_of(template: Template) -> str:
    """Return the engine of a template; empty without one."""
    return template.param.get("CONTAINER_ENGINE", "")


def with_engine(environment: Mapping[str, str], template: Template) -> Mapping[str, str]:
    """Return an environment in which the engine's programs are those of the template.

    The param `CONTAINER_ENGINE_DIR` is a directory with programs that precede those of this host.
    """
    directory = template.param.get("CONTAINER_ENGINE_DIR")
    if not directory:
        return environment
    path = environment.get("PATH", "/usr/bin:/bin")
    return {**environment, "PATH": f"{directory}:{path}"}


def missing_engine(template: Template) -> str:
    """Return why the engine of the template cannot run; empty if it can or none is selected."""
    directory = template.param.get("CONTAINER_ENGINE_DIR")
    program = "dockerd" if engine_of(template) == "moby" else "containerd"
    if not directory or os.access(Path(directory, program), os.X_OK):
        return ""
    return f'the engine "{directory}" is not installed'


def docker_sockets(template: Template) -> list[Path]:
    """Return the paths of dockerd's socket on this host, from the template."""
    return [
        Path(rule.host_socket)
        for rule in template.port_forwards
        if in_run(rule.guest_socket) == DOCKER_SOCKET and rule.host_socket and not rule.reverse
    ]


def in_run(path: str) -> str:
    """Return a path with /var/run resolved, which is a link to /run everywhere."""
    return "/run/" + path.removeprefix("/var/run/") if path.startswith("/var/run/") else path


def moby(
    paths: MachinePaths,
    template: Template,
    engine_network: EngineNetwork,
    *,
    program: Path,
    environment: Mapping[str, str],
    cgroup_parent: str = "",
    proxy: Path | None = None,
) -> Service:
    """Return dockerd, with its socket at the usual path inside and the template's outside."""
    is_root = not engine_network.is_rootless
    hosts = [f"unix://{DOCKER_SOCKET}", *(f"unix://{path}" for path in docker_sockets(template))]
    config = {
        "data-root": str(paths.data("docker")),
        "exec-root": "/run/docker",
        "pidfile": "/run/docker.pid",
        "hosts": hosts,
        "group": "0" if is_root else None,
        # systemd is outside the process namespace and would misinterpret the pids. Without root
        # containers then have no groups of their own: they stay in that of the machine.
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "cgroup-parent": cgroup_parent or None,
        "userland-proxy-path": str(proxy) if proxy is not None else None,
        "dns": [engine_network.nameserver] if engine_network.nameserver else None,
        "host-gateway-ip": engine_network.gateway or None,
        "default-address-pools": [
            {"base": pool, "size": max(24, int(pool.partition("/")[2]))}
            for pool in engine_network.pools
        ]
        or None,
    }
    needed = {name: value for name, value in config.items() if value is not None}
    kept = {**settings.engine_settings(template), **needed}
    return Service(
        name="dockerd",
        program=program,
        arguments=("--config-file", str(paths.config("dockerd"))),
        config=json.dumps(kept, indent=2) + "\n",
        socket=DOCKER_SOCKET,
        environment={
            **inherited_environment(environment),
            **settings.environment_of(template, paths),
        },
        files=settings.files_of(template, paths),
    )


def containerd(paths: MachinePaths, *, program: Path, environment: Mapping[str, str]) -> Service:
    """Return containerd, with its socket in the machine's socket directory."""
    socket = str(paths.directory.sockets / CONTAINERD_SOCKET)
    config = (
        "version = 2\n"
        f"root = {json.dumps(str(paths.data('containerd')))}\n"
        'state = "/run/containerd"\n'
        # Its streaming server would listen on a port, which would be forwarded.
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f"[grpc]\n  address = {json.dumps(socket)}\n"
    )
    return Service(
        name="containerd",
        program=program,
        arguments=("--config", str(paths.config("containerd"))),
        config=config,
        socket=socket,
        environment=inherited_environment(environment),
    )


def inherited_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the daemon's environment that engines inherit."""
    passed = {name: environment[name] for name in _INHERITED if name in environment}
    path = passed.get("PATH", "/usr/bin:/bin")
    missing = [part for part in ("/usr/sbin", "/sbin") if part not in path.split(":")]
    return {**passed, "PATH": ":".join([path, *missing])}
