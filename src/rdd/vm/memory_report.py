# SPDX-License-Identifier: Apache-2.0
"""The memory of a guest, as a host agent reports it: what the guest uses, what this host holds.

The event stream carries it as rdd's own member `memory`, which Lima's readers ignore. A report
follows only a change that matters, because each one wakes up the daemon.
"""

from dataclasses import dataclass
from typing import Any

_SMALLEST_CHANGE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """The last measurement."""

    used_bytes: int = 0
    """What the guest needs: without its page cache and free memory; 0 if it is unknown."""
    host_bytes: int = 0
    """What the guest's memory occupies on this host; 0 if it is unknown."""
    problem: str = ""
    """Why memory is not given back; empty if it is."""

    def differs(self, other: "MemoryReport") -> bool:
        """Return whether a difference is worth a report."""
        return self.problem != other.problem or any(
            abs(one - two) > max(_SMALLEST_CHANGE_BYTES, two // 10)
            for one, two in (
                (self.used_bytes, other.used_bytes),
                (self.host_bytes, other.host_bytes),
            )
        )

    def to_data(self) -> dict[str, Any]:
        """Return the member of an event, which is never empty."""
        return {
            "usedBytes": self.used_bytes,
            "hostBytes": self.host_bytes,
            "problem": self.problem,
        }

    @classmethod
    def from_data(cls, data: Any) -> "MemoryReport | None":
        """Return the report in a member of an event; None if it has another form."""
        if not isinstance(data, dict):
            return None
        used, host = data.get("usedBytes", 0), data.get("hostBytes", 0)
        if type(used) is not int or type(host) is not int:
            return None
        return cls(used_bytes=used, host_bytes=host, problem=str(data.get("problem") or ""))
