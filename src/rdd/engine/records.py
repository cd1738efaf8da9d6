# SPDX-License-Identifier: Apache-2.0
"""Typed requests and stream records of the Docker API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Object = dict[str, Any]


class EngineEvent(NamedTuple):
    """An event of the engine."""

    type: str
    """container, image or volume."""
    action: str
    id: str
    """The ID of a container, the ID or reference of an image, the name of a volume."""
    attributes: Mapping[str, str]
    time_ns: int
    """Of the engine's clock."""


class LayerProgress(NamedTuple):
    """The progress of one layer of a transfer."""

    layer: str
    """Empty for a message about the whole image."""
    status: str
    current: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """The container to create."""

    image: str
    path: str = ""
    """The program that replaces the entry point of the image."""
    args: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """Maps `80/tcp` to host addresses and ports; without any it is only exposed."""

    def body(self) -> Object:
        """Return the body of the request."""
        body: Object = {"Image": self.image, "Labels": dict(self.labels)}
        if self.path:
            body["Entrypoint"] = [self.path]
        if self.args:
            body["Cmd"] = list(self.args)
        if self.ports:
            body["ExposedPorts"] = {port: {} for port in self.ports}
            body["HostConfig"] = {
                "PortBindings": {
                    port: [{"HostIp": ip, "HostPort": number} for ip, number in bindings]
                    for port, bindings in self.ports.items()
                    if bindings
                }
            }
        return body


@dataclass(frozen=True, slots=True)
class ExecConfig:
    """A command to run in a container."""

    command: Sequence[str]
    is_terminal: bool = False
    wants_stdin: bool = False
    wants_stdout: bool = True
    wants_stderr: bool = True
    environment: Sequence[str] = ()
    workdir: str = ""
    user: str = ""
    privileged: bool = False
