# SPDX-License-Identifier: Apache-2.0
"""What is remembered about a machine while it runs: `host.json`.

For the agent that takes over, and for whoever cleans up. It is written before what it tells
of is done, so that a crash in between leaves something to undo and never something unknown.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachineState:
    """What this machine uses."""

    engine: str
    mode: str
    """`root` or `rootless`."""
    host_ip: str = ""
    guest_ip: str = ""
    uplinks: tuple[str, ...] = ()
    """Interfaces on which we switched forwarding on."""
    sockets: tuple[str, ...] = ()
    """Sockets outside the instance directory that the engine listens on."""
    state: str = "running"
    """Only what is `running` can be taken over; the others are `starting` and `stopping`."""

    def write(self, path: Path) -> None:
        """Keep it. Raises HostError."""
        write_atomically(path, json.dumps(asdict(self)) + "\n", durable=False)

    @classmethod
    def read(cls, path: Path) -> "HostMachineState | None":
        """What was kept; None if there is nothing that can be read."""
        try:
            data = json.loads(read_text(path) or "null")
            return cls(
                engine=str(data["engine"]),
                mode=str(data["mode"]),
                host_ip=str(data["host_ip"]),
                guest_ip=str(data["guest_ip"]),
                uplinks=tuple(data["uplinks"]),
                sockets=tuple(data["sockets"]),
                state=str(data["state"]),
            )
        except (ValueError, KeyError, TypeError, HostError):
            return None
