# SPDX-License-Identifier: Apache-2.0
"""The mock objects: containers, images, a volume, a host.

They are the same in every run, so that tests of other programs can refer to them. The
containers differ in their logs (see rdd.controllers.mock.logs).
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rdd.kinds.container import Container, ContainerState, ContainerStatus
from rdd.kinds.containernamespace import ContainerNamespace
from rdd.kinds.hostinfo import HostInfo, HostInfoStatus
from rdd.kinds.image import Image, ImageStatus
from rdd.kinds.kind import Kind
from rdd.kinds.parts.ports import Port, PortBinding
from rdd.kinds.struct import Struct
from rdd.kinds.volume import Volume, VolumeStatus

OWNER = "rdd-mocks"
"""The namespace that owns all mock objects; it cannot be deleted."""
NAMESPACE = "rancher-desktop"
"""The namespace of the mock objects."""
ENGINE_NAMESPACE = "buildkit"
"""The namespace of the mock containers in the engine."""
WRITER_LABEL = "io.rancherdesktop.mock.logs.writer"

CPUS = 32
MEMORY = "12Gi"

_CREATED = "2026-01-02T03:04:05Z"
_STARTED = "2026-01-02T03:04:06Z"
_FINISHED = "2026-01-02T03:05:00Z"

_WEB = "sha256:" + hashlib.sha256(b"mock image web").hexdigest()
_DATABASE = "sha256:" + hashlib.sha256(b"mock image database").hexdigest()
_TAGS = {
    "docker.io/library/web:1.0": _WEB,
    "docker.io/library/web:latest": _WEB,
    "docker.io/library/database:17": _DATABASE,
}
_SIZES = {_WEB: 48_234_496, _DATABASE: 432_013_312}


@dataclass(frozen=True, slots=True)
class Mock:
    """One object: its kind and name, and its status if it has one."""

    kind: type[Kind]
    name: str
    status: Struct | None = None

    @property
    def namespace(self) -> str:
        return NAMESPACE if self.kind.namespaced else ""


def mocks() -> Iterator[Mock]:
    """Return all mock objects."""
    for name in (ENGINE_NAMESPACE, "moby"):
        yield Mock(ContainerNamespace, name)
    yield _container("web", _WEB, "running", {}, port="80/tcp")
    yield _container("database", _DATABASE, "running", {WRITER_LABEL: "hundred"}, port="5432/tcp")
    yield _container("ticker", _WEB, "running", {WRITER_LABEL: "loop"})
    yield _container("migration", _DATABASE, "exited", {WRITER_LABEL: "ten"})
    for tag, image in _TAGS.items():
        yield _image(tag, image)
    yield Mock(
        Volume,
        "data",
        VolumeStatus(
            name="data",
            namespace=ENGINE_NAMESPACE,
            driver="local",
            mountpoint="/var/lib/docker/volumes/data/_data",
            scope="local",
            created_at=_CREATED,
            labels={"io.rancherdesktop.mock": "true"},
        ),
    )
    yield Mock(HostInfo, "system", HostInfoStatus(cpus=CPUS, memory=MEMORY))


def _container(
    name: str, image: str, state: ContainerState, labels: Mapping[str, str], *, port: str = ""
) -> Mock:
    number = hashlib.sha256(f"mock container {name}".encode()).hexdigest()
    values: dict[str, Any] = {}
    if state == "running":
        values |= {"pid": 1000 + len(name), "started_at": _STARTED}
    else:
        values |= {"exit_code": 0, "started_at": _STARTED, "finished_at": _FINISHED}
    if port:
        binding = PortBinding(host_ip="127.0.0.1", host_port=f"1{port.partition('/')[0]}")
        values["ports"] = [Port(name=port, bindings=[binding])]
    return Mock(
        Container,
        number,
        ContainerStatus(
            name=name,
            namespace=ENGINE_NAMESPACE,
            path=f"/usr/bin/{name}",
            args=["--mock"],
            image=image,
            labels={"com.example.name": name, "io.rancherdesktop.mock": "true", **labels},
            status=state,
            created_at=_CREATED,
            **values,
        ),
    )


def _image(tag: str, image: str) -> Mock:
    name = f"{image.replace(':', '.')}-{hashlib.sha256(tag.encode()).hexdigest()}"
    repository = tag.rpartition(":")[0]
    return Mock(
        Image,
        name,
        ImageStatus(
            namespace=ENGINE_NAMESPACE,
            id=image,
            repo_tag=tag,
            repo_digests=[f"{repository}@{image}"],
            architecture="amd64",
            os="linux",
            size=_SIZES[image],
            created_at=_CREATED,
            labels={"io.rancherdesktop.mock": "true"},
        ),
    )
