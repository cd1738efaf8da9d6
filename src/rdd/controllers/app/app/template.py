# SPDX-License-Identifier: Apache-2.0
"""The template of the App's virtual machine.

`TemplateInputs` has all inputs of a template; equal inputs give equal text. The first line
of the text has a hash of the inputs from the spec and one of the text itself:

    # rdd: spec 3f2a…, text 90bd…

So the reason of a difference to the current template is known: the spec differs (the
template is replaced, which restarts the virtual machine), a user has edited it (the same), or
another version of rdd rendered the same spec (it stays until the next restart).

Invariant: the names of the members of `DesiredMachine` and `Network` are part of the hash.
"""

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rdd.api.quantity import Quantity
from rdd.base.container_logs import MAX_FILES, MAX_SIZE, log_settings
from rdd.controllers.app import k3s_versions_table
from rdd.controllers.app.app import explicit, scripts
from rdd.controllers.app.app import network as net
from rdd.controllers.app.app.engine_version import engine_directory
from rdd.controllers.app.app.network import DEFAULT_NETWORK, Network
from rdd.instance import Instance
from rdd.kinds.app import App
from rdd.vm.drivers.kubernetes_files import releases_directory
from rdd.vm.template import Template, render
from rdd.vm.template.model import (
    CaCertificates,
    Containerd,
    CopyToHost,
    HostResolver,
    Image,
    Mount,
    PortForward,
    Probe,
    Provision,
    Size,
)

_RELEASE = "v0.2.8"
_PLACE = f"https://github.com/rancher-sandbox/rancher-desktop-opensuse/releases/download/{_RELEASE}"
IMAGES = (
    Image(
        location=f"{_PLACE}/distro.{_RELEASE}.amd64.raw.xz",
        arch="x86_64",
        digest="sha256:a589e020df983d6b971fbbe73d1b378fb3dfaaa6c0a6056ac48a168f646e9007",
    ),
    Image(
        location=f"{_PLACE}/distro.{_RELEASE}.arm64.raw.xz",
        arch="aarch64",
        digest="sha256:64136a49ecebdf09e88d5026e942595e0c8b5c92d21f9d4e5e6bdfa85c2673dd",
    ),
)
_HOSTS = {
    "host.docker.internal": "host.lima.internal",
    "host.rancher-desktop.internal": "host.lima.internal",
    "lima-rancher-desktop": "lima-0",
}
_LATER = ("engine_dir", "log_max_size", "log_max_files", "disk")
_HEADER = re.compile(r"# rdd: spec ([0-9a-f]{16}), text ([0-9a-f]{16})\n")

Difference = Literal["none", "spec", "edited", "upgrade"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredMachine:
    """The virtual machine that the spec describes."""

    engine: str
    cpus: int = 0
    memory: int = 0
    """In bytes; 0 means the default."""
    kubernetes: str = ""
    """The version; empty without Kubernetes."""
    kubernetes_port: int = 0
    network: Network = DEFAULT_NETWORK
    engine_dir: str = ""
    """The programs of the engine; empty for those of this host."""
    log_max_size: str = ""
    """The bound of the log of each container; empty, like 0, means the default."""
    log_max_files: int = 0
    disk: int = 0
    """In bytes; 0 means the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateInputs:
    """All inputs of a template."""

    driver: str
    machine: DesiredMachine
    home: Path
    docker_socket: Path
    k3s_config: Path
    k3s_releases: Path = Path("/")
    """The directory with the files of Kubernetes, by release."""
    kept_logs: Path | None = None
    """The directory for logs of the guest, if they are kept."""


def inputs_of(
    app: App,
    driver: str,
    instance: Instance,
    *,
    home: Path,
    environment: Mapping[str, str],
    keep_logs: bool = False,
) -> TemplateInputs:
    """Return the inputs of the template of an App."""
    spec = app.spec
    given, kubernetes, logs = spec.virtual_machine, spec.kubernetes, spec.container_engine.logs
    has_kubernetes = kubernetes.enabled and bool(app.status.kubernetes_port)
    is_machine = driver != "host"
    has_cpus = is_machine or explicit.is_explicit(app, "cpus")
    has_memory = given.memory and (is_machine or explicit.is_explicit(app, "memory"))
    memory = Quantity.parse(given.memory).value() if has_memory else 0
    return TemplateInputs(
        driver=driver,
        machine=DesiredMachine(
            engine=spec.container_engine.name,
            cpus=given.cpus if has_cpus else 0,
            memory=memory,
            kubernetes=kubernetes.version if has_kubernetes else "",
            kubernetes_port=app.status.kubernetes_port if has_kubernetes else 0,
            network=net.network_of(spec),
            log_max_size="" if logs.max_size == MAX_SIZE else logs.max_size,
            log_max_files=0 if logs.max_files == MAX_FILES else logs.max_files,
            disk=Quantity.parse(given.disk).value() if given.disk and is_machine else 0,
            engine_dir="" if is_machine else _engine_dir(spec.container_engine.version, instance),
        ),
        home=home,
        docker_socket=instance.docker_socket,
        k3s_config=instance.k3s_config,
        k3s_releases=releases_directory(environment),
        kept_logs=instance.log_dir if keep_logs and is_machine else None,
    )


def _engine_dir(version: str, instance: Instance) -> str:
    return str(engine_directory(instance, version)) if version else ""


def text_of(inputs: TemplateInputs) -> str:
    """Return the text of a template, with its first line."""
    body = render(template_of(inputs))
    return f"# rdd: spec {spec_hash(inputs)}, text {_hash(body)}\n{body}"


def spec_hash(inputs: TemplateInputs) -> str:
    """Return the hash of the inputs from the spec."""
    members = dataclasses.asdict(inputs.machine)
    for name in _LATER:  # templates of earlier versions do not have them
        if not members[name]:
            del members[name]
    return _hash(json.dumps(members, sort_keys=True))


def compare(present: str, inputs: TemplateInputs) -> Difference:
    """Return how a template differs from the current one."""
    if present == text_of(inputs):
        return "none"
    header = _HEADER.match(present)
    if header is None or header[2] != _hash(present[header.end() :]):
        return "edited"
    return "spec" if header[1] != spec_hash(inputs) else "upgrade"


def template_of(inputs: TemplateInputs) -> Template:
    machine = inputs.machine
    is_guest = inputs.driver != "host"
    environment = net.proxy_environment(machine.network)
    common = Template(
        provision=tuple(_provision(inputs)),
        port_forwards=tuple(_forwards(inputs)),
        env=environment,
        param=dict(_params(inputs)),
        propagate_proxy_env=not environment,
        ca_certs=CaCertificates(certs=machine.network.authorities),
        copy_to_host=tuple(_copies(inputs)),
    )
    if not is_guest:
        return dataclasses.replace(
            common, vm_type="host", cpus=machine.cpus, memory=Size(machine.memory)
        )
    return dataclasses.replace(
        common,
        vm_type="" if inputs.driver == "lima" else inputs.driver,
        images=IMAGES,
        cpus=machine.cpus,
        memory=Size(machine.memory),
        disk=Size(machine.disk),
        mounts=tuple(_mounts(inputs)),
        containerd=Containerd(system=False, user=False),
        host_resolver=HostResolver(hosts=_HOSTS),
        probes=tuple(_probes(inputs)),
    )


def _params(inputs: TemplateInputs) -> Iterator[tuple[str, str]]:
    machine = inputs.machine
    yield "CONTAINER_ENGINE", machine.engine
    if machine.engine_dir:
        yield "CONTAINER_ENGINE_DIR", machine.engine_dir
    yield "HOST_DOCKER_SOCKET", str(inputs.docker_socket)
    yield "HOST_HOME_GUEST", str(inputs.home)
    yield "KUBERNETES_ENABLED", "true" if machine.kubernetes else "false"
    if machine.kubernetes:
        yield "KUBERNETES_VERSION", machine.kubernetes
        yield "KUBERNETES_RELEASE", _release(machine)
        yield "KUBERNETES_PORT", str(machine.kubernetes_port)
        if inputs.driver != "host":
            yield "KUBERNETES_FILES", str(_k3s_files(inputs))
        yield "HOST_INSTANCE_CONFIG", str(inputs.k3s_config)
    if inputs.kept_logs is not None:
        yield "GUEST_LOG_DIR", str(inputs.kept_logs)


def _release(machine: DesiredMachine) -> str:
    return k3s_versions_table.release_of(machine.kubernetes)


def _k3s_files(inputs: TemplateInputs) -> Path:
    """Return the directory from which a guest installs k3s, on the host and in the guest."""
    return inputs.k3s_releases / _release(inputs.machine)


def _mounts(inputs: TemplateInputs) -> Iterator[Mount]:
    yield Mount(location="~", writable=True)
    if inputs.machine.kubernetes and not inputs.k3s_releases.is_relative_to(inputs.home):
        yield Mount(location=str(inputs.k3s_releases), writable=False)


def _forwards(inputs: TemplateInputs) -> Iterator[PortForward]:
    port = inputs.machine.kubernetes_port
    if port:
        # k3s listens on all addresses in the guest, but only on the loopback of the host.
        # Without a guest no agent reports listening ports, so the forward is static.
        yield PortForward(
            guest_port=port, host_ip="127.0.0.1", host_port=port, static=inputs.driver == "host"
        )
    yield PortForward(guest_ip="0.0.0.0", guest_port_range=(1, 65535), host_ip="0.0.0.0")
    yield PortForward(
        guest_socket="/var/run/docker.sock", host_socket="{{.Param.HOST_DOCKER_SOCKET}}"
    )


def _provision(inputs: TemplateInputs) -> Iterator[Provision]:
    names = [name for name, _ in _params(inputs) if name not in _NOT_FOR_UNITS]
    lines = [f'{name}="{{{{.Param.{name}}}}}"\n' for name in names]
    files = list(_files(inputs))
    if inputs.driver == "host":
        yield _file(scripts.SETTINGS, "".join(lines))
        yield from files
        return
    lines.append(f'SETTINGS_FILES="{" ".join(item.path for item in files)}"\n')
    yield _file(scripts.SETTINGS, "".join(lines))
    yield from files
    if inputs.kept_logs is not None:
        yield Provision(mode="system", script=scripts.KEEP_LOGS)
    yield Provision(mode="system", script=scripts.SET_UP)


def _files(inputs: TemplateInputs) -> Iterator[Provision]:
    """Yield the files that the settings need."""
    machine, network = inputs.machine, inputs.machine.network
    environment = net.proxy_environment(network)
    if environment and inputs.driver != "host":  # without a guest, `env` is enough
        settings = (f'{name}="{value}"\n' for name, value in environment.items())
        yield _file(scripts.PROXY, "".join(settings))
        for unit in scripts.PROXY_UNITS:
            yield _file(f"/etc/systemd/system/{unit}.d/rdd-proxy.conf", scripts.PROXY_DROP_IN)
    has_own_logs = machine.log_max_size or machine.log_max_files
    # The type host has the default itself, so that a changed default needs no new template.
    has_logs = machine.engine == "moby" and (inputs.driver != "host" or has_own_logs)
    logs = log_settings(machine.log_max_size, machine.log_max_files) if has_logs else {}
    if daemon := net.daemon_json(network, logs):
        yield _file(scripts.DAEMON_JSON, daemon)
    for registry, text in net.hosts_toml(network).items():
        yield _file(f"{scripts.CERTS_D}/{registry}/hosts.toml", text)
    if machine.kubernetes:
        yield _file(scripts.K3S_CONFIG, _k3s_config(machine))
        if registries := net.registries_yaml(network):
            yield _file(scripts.K3S_REGISTRIES, registries, permissions="600")


_NOT_FOR_UNITS = ("HOST_INSTANCE_CONFIG", "GUEST_LOG_DIR")


def _k3s_config(machine: DesiredMachine) -> str:
    lines = ['https-listen-port: "{{.Param.KUBERNETES_PORT}}"\n']
    if machine.engine == "containerd":
        lines.append(f"container-runtime-endpoint: {scripts.CONTAINERD_SOCKET}\n")
    else:
        lines.append("docker: true\n")
    return "".join(lines)


def _probes(inputs: TemplateInputs) -> Iterator[Probe]:
    if inputs.machine.kubernetes:
        yield Probe(
            description="k3s has written its kubeconfig",
            script=scripts.WAIT_FOR_KUBERNETES,
            hint="see: rdd shell sudo journalctl -u k3s",
        )


def _copies(inputs: TemplateInputs) -> Iterator[CopyToHost]:
    if inputs.machine.kubernetes:
        yield CopyToHost(
            guest=scripts.K3S_KUBECONFIG,
            host="{{.Param.HOST_INSTANCE_CONFIG}}",
            delete_on_stop=True,
        )


def _file(path: str, content: str, *, permissions: str = "644") -> Provision:
    return Provision(
        mode="data", content=content, path=path, owner="root:root", permissions=permissions
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
