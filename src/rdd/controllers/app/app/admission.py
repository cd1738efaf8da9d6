# SPDX-License-Identifier: Apache-2.0
"""Defaulting and validation of the App.

app-defaulter    resolves channels to versions, defaults CPUs and memory to values for this
                 host and marks them as defaults, makes quantities canonical
app-validator    rejects values that the host or rdd does not support; the message has the limits

CPUs and memory are validated when they change: a value that was accepted before, or a default
of another computer, must not prevent a stop.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from rdd.api.quantity import Quantity, QuantityError
from rdd.controllers.app import k3s_versions_table as k3s
from rdd.controllers.app.app import explicit, history, network
from rdd.controllers.app.app.driver_choice import AUTO, choose
from rdd.controllers.app.k3s_releases import Releases
from rdd.host import hardware
from rdd.kinds.app import App, AppSpec
from rdd.runtime import CREATE, UPDATE, AdmissionRequest, Denied, Webhook, defaulting, validating
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import LimitsSupport
from rdd.vm.drivers.selection import Probe

GIB = 1 << 30
MIN_MEMORY = 2 * GIB
MAX_DEFAULT_MEMORY = 6 * GIB
MIN_DISK, DEFAULT_DISK, MAX_DISK = 10 * GIB, 100 * GIB, 64 << 40
DEFAULT_CPUS = 2
CPUS_VARIABLE = "RDD_VM_CPUS"

_host_and_port = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::([0-9]{1,5}))?"
).fullmatch
_is_plain = re.compile(r"[!#-\[\]-~]+").fullmatch  # visible ASCII without quotes and backslash
_PROXY_SCHEMES = ("http", "https", "socks5", "socks5h")


def missing_limits(environment: Mapping[str, str]) -> str:
    """Return why the type host cannot enforce limits here; empty if it can."""
    provider = catalog.provider("host")
    assert isinstance(provider, LimitsSupport)
    return provider.missing_limits(environment)


async def shipped_releases(_: str) -> Releases:
    """Return the k3s releases of this version of rdd."""
    return Releases.shipped()


class AppAdmission:
    """The rules for one host; `environment` is that of the process."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        cpus: int | None = None,
        memory_bytes: int | None = None,
        probe: Probe = catalog.availability,
        missing_limits: Callable[[Mapping[str, str]], str] = missing_limits,
        engines: Callable[[], Sequence[str]] = tuple,
        releases: Callable[[str], Awaitable[Releases]] = shipped_releases,
    ) -> None:
        self._releases = releases
        self._engines = engines
        self._missing_limits = missing_limits
        self._probe = probe
        self._environment = environment
        self._cpus = cpus if cpus is not None else hardware.cpus()
        self._memory = memory_bytes if memory_bytes is not None else hardware.memory_bytes()

    def webhooks(self) -> tuple[Webhook, ...]:
        return (
            defaulting("app-defaulter", App, self.complete, operations=(CREATE, UPDATE)),
            validating("app-validator", App, self.check),
        )

    # -- defaulting

    async def complete(self, request: AdmissionRequest[App]) -> App:
        """Return the App with defaults."""
        app = request.object
        if "spec" not in app.raw:
            # A missing spec: schema validation rejects this value.
            return app.replace(spec=AppSpec.of({"running": False, "containerEngine": {"name": ""}}))
        spec = app.spec
        kubernetes = spec.kubernetes
        version = kubernetes.version
        if not version and kubernetes.enabled:
            version = k3s.DEFAULT_CHANNEL
        if version and version not in k3s.VERSIONS:
            version = (await self._releases(spec.namespace)).resolve(version)
        kubernetes = kubernetes.replace(enabled=kubernetes.enabled, version=version)
        wanted = spec.virtual_machine
        wanted = wanted.replace(memory=_canonical(wanted.memory))
        if wanted.disk:
            wanted = wanted.replace(disk=_canonical(wanted.disk))
        spec = spec.replace(running=spec.running, kubernetes=kubernetes, virtual_machine=wanted)
        app = app.replace(spec=spec)
        defaults = {
            "cpus": wanted.cpus or self._default_cpus(),
            "memory": wanted.memory or await self._default_memory(app),
        }
        marks = await self._marks(app, request.old)
        metadata = app.metadata.replace(annotations={**app.metadata.annotations, **marks})
        completed = app.replace(
            metadata=metadata,
            spec=spec.replace(virtual_machine=wanted.replace(**defaults)),
        )
        return history.annotated(completed, request)

    async def _marks(self, app: App, old: App | None) -> dict[str, str]:
        defaults = {"cpus": self._default_cpus(), "memory": ""}
        if self._memory >= MIN_MEMORY:
            defaults["memory"] = await self._default_memory(app)
        return explicit.marks(app, old, defaults)

    def _default_cpus(self) -> int:
        text = self._environment.get(CPUS_VARIABLE, "")
        if text and not (text.isascii() and text.isdigit() and int(text) > 0):
            raise Denied(f'invalid {CPUS_VARIABLE} value "{text}": it must be a positive number')
        return min(int(text) if text else DEFAULT_CPUS, self._cpus)

    async def _default_memory(self, app: App) -> str:
        if self._memory >= MIN_MEMORY:
            return _shown(max(MIN_MEMORY, min(self._memory // 4, MAX_DEFAULT_MEMORY)))
        if await self._is_host(app):
            return ""
        have = _shown(self._memory)
        raise Denied(f"the host has {have} of memory; a virtual machine needs at least 2Gi")

    # -- validation

    async def check(self, request: AdmissionRequest[App]) -> None:
        """Raise Denied with all validation errors."""
        app = request.object
        if "spec" not in app.raw or app.metadata.deletion_timestamp:
            return
        problems = [
            *self._kubernetes(app.spec),
            *await self._resources(request),
            *await self._engine(request),
            *await self._disk(request),
            *_type(request),
            *_proxy(app.spec),
            *_registries(app.spec),
            *_downloads(app.spec),
        ]
        if problems:
            raise Denied("; ".join(problems))
        # Once: a start or a stop of an App with the same settings warns of nothing new.
        known = set(_warnings(request.old.spec)) if request.old is not None else ()
        for warning in _warnings(app.spec):
            if warning not in known:
                request.warn(warning)

    def _kubernetes(self, spec: AppSpec) -> Iterator[str]:
        version = spec.kubernetes.version
        if spec.kubernetes.enabled and not version:
            yield "spec.kubernetes.version must be set when Kubernetes is enabled"
        elif version and not k3s.release_of(version):
            known = (
                f"{', '.join(k3s.VERSIONS)} and the channels {', '.join(k3s.CHANNELS)}, and "
                f"releases in full such as {k3s.RELEASES[-1].removeprefix('v')}"
            )
            yield f'spec.kubernetes.version "{version}" is not supported; supported are {known}'

    async def _engine(self, request: AdmissionRequest[App]) -> list[str]:
        """Return the problem of a new version of the engine, or of its first use by this type."""
        app, old = request.object, request.old
        version = app.spec.container_engine.version
        if not version or (old is not None and old.spec.container_engine.version == version):
            return []
        known = await asyncio.to_thread(self._engines)
        if version not in known:
            return [
                f'spec.containerEngine.version "{version}" is not supported; supported are '
                f"{', '.join(known)}, and any version that `rdd tools install` has installed"
            ]
        if not await self._is_host(app):
            return [
                "spec.containerEngine.version needs the type host: a virtual machine has the "
                "engine of its image"
            ]
        return []

    async def _resources(self, request: AdmissionRequest[App]) -> list[str]:
        """Return the problems of CPUs and memory, as far as they are new."""
        app, changed = request.object, list(_changed_resources(request))
        problems: list[str] = []
        if "cpus" in changed:
            problems += self._processors(app.spec)
        if "memory" in changed:
            problems += self._amount_of_memory(app.spec)
        limited = [name for name in changed if explicit.is_explicit(app, name)]
        if limited and not problems and await self._is_host(app):
            reason = await asyncio.to_thread(self._missing_limits, self._environment)
            problems += [
                f"spec.virtualMachine.{name} cannot be enforced on this host: {reason}"
                for name in limited
                if reason
            ]
        return problems

    async def _disk(self, request: AdmissionRequest[App]) -> list[str]:
        """Return the problem of a new size of the disk."""
        app, old = request.object, request.old
        text, before = app.spec.virtual_machine.disk, old.spec.virtual_machine.disk if old else ""
        name = "spec.virtualMachine.disk"
        if text == before:
            return []
        if not text:
            return [f"{name} cannot be removed: the disk has {before} and cannot shrink"]
        try:
            wanted = Quantity.parse(text).value()
        except QuantityError:
            return [f'{name} "{text}" is not a valid quantity']
        if not MIN_DISK <= wanted <= MAX_DISK:
            return [f"{name} {text} must be from {_shown(MIN_DISK)} to {_shown(MAX_DISK)}"]
        if await self._is_host(app):
            return [
                f"{name} needs a virtual machine: the type host has no disk of its own, its "
                "engine uses the file systems of this host"
            ]
        if old is None or not old.status.virtual_machine_type:
            return []  # no machine exists yet
        least = Quantity.parse(before).value() if before else DEFAULT_DISK
        if wanted < least:
            return [f"{name} {text} is less than the current {_shown(least)}: disks cannot shrink"]
        return []

    def _processors(self, spec: AppSpec) -> Iterator[str]:
        cpus = spec.virtual_machine.cpus
        if cpus < 0:
            yield f"spec.virtualMachine.cpus {cpus} must not be negative"
        elif cpus > self._cpus:
            yield f"spec.virtualMachine.cpus {cpus} exceeds the host CPU count of {self._cpus}"

    def _amount_of_memory(self, spec: AppSpec) -> Iterator[str]:
        text = spec.virtual_machine.memory
        if not text:
            return
        try:
            wanted = Quantity.parse(text).value()
        except QuantityError:
            yield f'spec.virtualMachine.memory "{text}" is not a valid quantity'
            return
        if wanted < MIN_MEMORY:
            yield f"spec.virtualMachine.memory {text} is less than the minimum of 2Gi"
        elif wanted > self._memory:
            limit = _shown(self._memory)
            yield f"spec.virtualMachine.memory {text} exceeds the host memory of {limit}"

    async def _is_host(self, app: App) -> bool:
        """Return whether the driver is host: CPUs and memory are then limits of this host."""
        wanted = app.spec.virtual_machine.type or AUTO
        if wanted == AUTO:
            known = app.status.virtual_machine_type
            if known:
                return known == "host"
            # Probing drivers blocks on files and programs.
            choice = await asyncio.to_thread(choose, wanted, self._environment, probe=self._probe)
            return choice.driver == "host"
        return wanted == "host"


def _changed_resources(request: AdmissionRequest[App]) -> Iterator[str]:
    """Yield the names of settings whose value, or whether it is a default, is new."""
    app, old = request.object, request.old
    for name in explicit.MARKS:
        is_new = old is None or explicit.value_of(app, name) != explicit.value_of(old, name)
        if is_new or explicit.is_explicit(app, name) != (old and explicit.is_explicit(old, name)):
            yield name


def _type(request: AdmissionRequest[App]) -> Iterator[str]:
    """Reject a change of the driver; `auto` matches any driver."""
    if request.old is None:
        return
    known = request.old.status.virtual_machine_type
    wanted = request.object.spec.virtual_machine.type or AUTO
    if known and wanted not in (AUTO, known):
        yield (
            f'spec.virtualMachine.type cannot be changed to "{wanted}": the virtual machine '
            f'exists with the type "{known}"; delete the App to choose another one'
        )


def _proxy(spec: AppSpec) -> Iterator[str]:
    for name, url in (
        ("httpProxy", spec.proxy.http_proxy),
        ("httpsProxy", spec.proxy.https_proxy),
    ):
        if url and not _is_url(url, _PROXY_SCHEMES):
            yield f"spec.proxy.{name} must be a URL such as http://proxy.example.com:3128"
    for i, name in enumerate(spec.proxy.no_proxy):
        if not _is_plain(name) or "," in name:
            yield f'spec.proxy.noProxy[{i}] "{name}" must be a host, a domain or a network'


def _registries(spec: AppSpec) -> Iterator[str]:
    for i, mirror in enumerate(spec.registries.mirrors):
        path = f"spec.registries.mirrors[{i}]"
        if not _is_registry(mirror.registry):
            yield f'{path}.registry "{mirror.registry}" must be a host, with or without a port'
        for j, url in enumerate(mirror.endpoints):
            if not _is_url(url, ("http", "https")):
                yield f'{path}.endpoints[{j}] "{url}" must be a URL such as https://mirror:5000'
        if not mirror.endpoints:
            yield f"{path}.endpoints must have at least one URL"
    for i, host in enumerate(spec.registries.insecure):
        if not _is_registry(host):
            yield f'spec.registries.insecure[{i}] "{host}" must be a host, with or without a port'


def _downloads(spec: AppSpec) -> Iterator[str]:
    if spec.downloads.mirror and not _is_url(spec.downloads.mirror, ("http", "https")):
        yield "spec.downloads.mirror must be a URL such as https://mirror.example.com/files"


def _warnings(spec: AppSpec) -> Iterator[str]:
    for i, pem in enumerate(spec.certificates.authorities):
        if problem := network.authority_problem(pem):
            yield f"spec.certificates.authorities[{i}] is ignored: {problem}"
    if spec.container_engine.name == "moby":
        others = [m.registry for m in spec.registries.mirrors if m.registry != network.DOCKER_HUB]
        if others:
            yield f"the engine moby supports mirrors of docker.io only, not of {', '.join(others)}"


def _is_registry(text: str) -> bool:
    found = _host_and_port(text)
    return found is not None and 0 < int(found[1] or 1) < 65536


def _is_url(url: str, schemes: tuple[str, ...]) -> bool:
    if not _is_plain(url):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _canonical(memory: str) -> Any:
    """Return a quantity in canonical form; schema validation rejects an invalid one."""
    try:
        return str(Quantity.parse(memory)) if memory else memory
    except QuantityError:
        return memory


def _shown(size: int) -> str:
    return str(Quantity.of(size, format="BinarySI"))
