# SPDX-License-Identifier: Apache-2.0
"""What a template asks this driver to run: a list of services, in the order of their start.

The param `CONTAINER_ENGINE` names the engine: `moby` is dockerd, which brings its own
containerd; `containerd` is containerd alone. Without it nothing is run. Each service is a
program with a configuration file of its own; nothing of the system's configuration of these
programs is read. Paths below /run are those inside the namespaces.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rdd.vm.drivers.host import settings
from rdd.vm.drivers.host.paths import MachinePaths
from rdd.vm.template.model import Template

ENGINES = ("moby", "containerd")
DOCKER_SOCKET = "/run/docker.sock"
CONTAINERD_SOCKET = "containerd.sock"  # in the directory of forwarded sockets

# What our processes give to an engine; other variables of the daemon are not its business.
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Service:
    """A program that runs inside the namespaces for as long as the machine does."""

    name: str
    program: Path
    arguments: Sequence[str]
    config: str
    """The text of its configuration file."""
    socket: str
    """What it answers on when it is ready; below /run it is inside the namespaces."""
    environment: Mapping[str, str]
    files: Mapping[Path, str] = field(default_factory=dict)
    """Further files it reads."""


@dataclass(frozen=True, slots=True)
class EngineNetwork:
    """What the namespaces look like to a service."""

    nameserver: str = ""
    gateway: str = ""
    """This machine, as containers reach it."""
    is_rootless: bool = False
    pools: Sequence[str] = ()
    """Networks that containers may use; empty: the engine's choice."""


def engine_of(template: Template) -> str:
    """The engine a template asks for; empty when it asks for none."""
    return template.param.get("CONTAINER_ENGINE", "")


def docker_sockets(template: Template) -> list[Path]:
    """Where the template wants the socket of dockerd on this machine."""
    return [
        Path(rule.host_socket)
        for rule in template.port_forwards
        if in_run(rule.guest_socket) == DOCKER_SOCKET and rule.host_socket and not rule.reverse
    ]


def in_run(path: str) -> str:
    """A path with /var/run, which is a link everywhere, resolved."""
    return "/run/" + path.removeprefix("/var/run/") if path.startswith("/var/run/") else path


def moby(
    paths: MachinePaths,
    template: Template,
    engine_network: EngineNetwork,
    *,
    program: Path,
    environment: Mapping[str, str],
) -> Service:
    """dockerd, with its socket at the usual path inside and at the template's outside."""
    is_root = not engine_network.is_rootless
    hosts = [f"unix://{DOCKER_SOCKET}", *(f"unix://{path}" for path in docker_sockets(template))]
    config = {
        "data-root": str(paths.data("docker")),
        "exec-root": "/run/docker",
        "pidfile": "/run/docker.pid",
        "hosts": hosts,
        "group": "0" if is_root else None,
        # systemd is outside the process namespace and would take our numbers for its own.
        "exec-opts": ["native.cgroupdriver=cgroupfs"] if is_root else None,
        "cgroup-parent": paths.cgroup if is_root else None,
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
        environment={**passed_on(environment), **settings.environment_of(template, paths)},
        files=settings.files_of(template, paths),
    )


def containerd(paths: MachinePaths, *, program: Path, environment: Mapping[str, str]) -> Service:
    """containerd, with its socket among the forwarded ones of the machine."""
    socket = str(paths.directory.sockets / CONTAINERD_SOCKET)
    config = (
        "version = 2\n"
        f"root = {json.dumps(str(paths.data('containerd')))}\n"
        'state = "/run/containerd"\n'
        # Its streaming server would listen on a port that looks like somebody's service.
        'disabled_plugins = ["io.containerd.grpc.v1.cri"]\n'
        f"[grpc]\n  address = {json.dumps(socket)}\n"
    )
    return Service(
        name="containerd",
        program=program,
        arguments=("--config", str(paths.config("containerd"))),
        config=config,
        socket=socket,
        environment=passed_on(environment),
    )


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """What programs get of the environment of the daemon."""
    passed = {name: environment[name] for name in _PASSED_ON if name in environment}
    path = passed.get("PATH", "/usr/bin:/bin")
    missing = [part for part in ("/usr/sbin", "/sbin") if part not in path.split(":")]
    return {**passed, "PATH": ":".join([path, *missing])}
