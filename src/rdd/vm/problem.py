# SPDX-License-Identifier: Apache-2.0
"""A problem of a running machine, as a host agent reports it.

Lima's events carry problems as texts only (`errors`). The agent adds a member `problems` with
the machine-readable part, so that no reader has to parse a text; Lima's readers ignore it.
"""

from dataclasses import dataclass
from typing import Any

ENGINE_HUNG, GUEST_HUNG, AGENT_HUNG = "EngineHung", "GuestHung", "AgentHung"
"""The engine, the guest or the host agent runs and does not respond."""

ADDRESS_IN_USE = "AddressInUse"
"""Another process listens on an address of this host that a forward needs."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem; `reason` is empty if only the text is available."""

    message: str
    reason: str = ""
    host_address: str = ""
    """The end of the forward on this host: `127.0.0.1:6443`, or the path of a socket."""
    host_port: int = 0
    remedy: str = ""
    """A command that resolves it; empty if there is none."""

    def to_data(self) -> dict[str, Any]:
        """Return the member of an event; empty values are left out."""
        data = {
            "reason": self.reason,
            "hostAddr": self.host_address,
            "hostPort": self.host_port,
            "remedy": self.remedy,
        }
        return {"message": self.message} | {key: value for key, value in data.items() if value}

    @classmethod
    def from_data(cls, data: Any) -> "Problem | None":
        """Return the problem in a member of an event; None if it has another form."""
        if not isinstance(data, dict):
            return None
        port = data.get("hostPort")
        return cls(
            str(data.get("message") or ""),
            str(data.get("reason") or ""),
            str(data.get("hostAddr") or ""),
            port if type(port) is int else 0,
            str(data.get("remedy") or ""),
        )
