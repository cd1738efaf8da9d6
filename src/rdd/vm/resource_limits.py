# SPDX-License-Identifier: Apache-2.0
"""The limits that a machine without a virtual machine has, as a host agent reports them.

The event stream carries them as rdd's own member `limits`, which Lima's readers ignore.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLimits:
    """The limits that are enforced; 0 means that there is none."""

    mode: str = ""
    """`v1`, `v2` or `v2-systemd`; empty if this host enforces no limits."""
    cpus: int = 0
    memory_bytes: int = 0
    message: str = ""
    """Why limits are not enforced; empty with a mode."""

    def to_data(self) -> dict[str, Any]:
        """Return the member of an event; empty values are left out."""
        data = {
            "mode": self.mode,
            "cpus": self.cpus,
            "memory": self.memory_bytes,
            "message": self.message,
        }
        return {key: value for key, value in data.items() if value}

    @classmethod
    def from_data(cls, data: Any) -> "ResourceLimits | None":
        """Return the limits in a member of an event; None if it has another form."""
        if not isinstance(data, dict):
            return None
        cpus, memory = data.get("cpus", 0), data.get("memory", 0)
        if type(cpus) is not int or type(memory) is not int:
            return None
        return cls(
            mode=str(data.get("mode") or ""),
            cpus=cpus,
            memory_bytes=memory,
            message=str(data.get("message") or ""),
        )
