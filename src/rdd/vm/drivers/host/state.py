# SPDX-License-Identifier: Apache-2.0
"""The state of a running machine on disk: `host.json`.

The next agent adopts the machine with it, and the cleanup removes with it what is outside the
instance directory. It is written before the operation that it describes: after a crash the
cleanup may find nothing to undo, but never something unrecorded.
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.vm.resource_limits import ResourceLimits


class HostMachinePhase(StrEnum):
    """The phase of a machine; only a RUNNING one can be adopted."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachineState:
    """The resources of a machine outside its directory."""

    engine: str
    mode: str
    """`root` or `rootless`."""
    host_ip: str = ""
    guest_ip: str = ""
    uplinks: tuple[str, ...] = ()
    """Interfaces on which rdd enabled forwarding."""
    sockets: tuple[str, ...] = ()
    """Sockets outside the instance directory that the engine listens on."""
    phase: HostMachinePhase = HostMachinePhase.RUNNING
    limits: ResourceLimits = field(default_factory=ResourceLimits)

    def write(self, path: Path) -> None:
        """Write the state. Raises HostError."""
        data = {
            "engine": self.engine,
            "mode": self.mode,
            "host_ip": self.host_ip,
            "guest_ip": self.guest_ip,
            "uplinks": self.uplinks,
            "sockets": self.sockets,
            "state": self.phase,
            "limits": self.limits.to_data(),
        }
        write_atomically(path, json.dumps(data) + "\n", durable=False)

    @classmethod
    def read(cls, path: Path) -> "HostMachineState | None":
        """Return the state in a file; None if it is missing or damaged."""
        try:
            data = json.loads(read_text(path) or "null")
            return cls(
                engine=str(data["engine"]),
                mode=str(data["mode"]),
                host_ip=str(data["host_ip"]),
                guest_ip=str(data["guest_ip"]),
                uplinks=tuple(data["uplinks"]),
                sockets=tuple(data["sockets"]),
                phase=HostMachinePhase(data["state"]),
                limits=ResourceLimits.from_data(data.get("limits")) or ResourceLimits(),
            )
        except (ValueError, KeyError, TypeError, HostError):
            return None
