# SPDX-License-Identifier: Apache-2.0
"""What is asked of the Docker API, and what comes back more than once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Object = dict[str, Any]


class EngineEvent(NamedTuple):
    """Something that happened in the engine."""

    type: str
    """container, image or volume."""
    action: str
    id: str
    """Of a container its ID, of an image its ID or reference, of a volume its name."""
    attributes: Mapping[str, str]
    time_ns: int
    """By the engine's own clock."""


class Progress(NamedTuple):
    """How far one layer of a transfer is."""

    layer: str
    """Empty for what concerns the image as a whole."""
    status: str
    current: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """The container to create."""

    image: str
    path: str = ""
    """Program instead of the image's entry point."""
    args: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """`80/tcp` to host addresses and ports; none: exposed only."""

    def body(self) -> Object:
        """As the API wants it."""
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
