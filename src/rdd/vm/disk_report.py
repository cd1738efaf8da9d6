# SPDX-License-Identifier: Apache-2.0
"""The space in a guest's disk and what was given back of it, as a host agent reports them.

The event stream carries it as rdd's own member `disk`, which Lima's readers ignore. An event is
written when the pressure or the result of a trim changes, not with every megabyte: the sizes are
those of that moment.
"""

from dataclasses import dataclass
from typing import Any

from rdd.base.sizes import binary

LOW, FULL = "GuestDiskLow", "GuestDiskFull"
_GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReport:
    """The fullest file system of a guest, and the last trim of all of them."""

    point: str = ""
    """Where it is mounted; empty if it has not been measured."""
    total_bytes: int = 0
    free_bytes: int = 0
    problem: str = ""
    """Why freed space does not return to this computer; empty if it does."""
    trimmed_at: str = ""
    """When the disk was last trimmed by itself."""
    returned_bytes: int = 0
    """What its file on this computer shrank by then."""

    @property
    def pressure(self) -> str:
        """The reason of the condition DiskPressure; empty with enough space."""
        if not self.total_bytes:
            return ""
        if self.free_bytes < min(_GIB, self.total_bytes // 50):
            return FULL
        return LOW if self.free_bytes < min(5 * _GIB, self.total_bytes // 10) else ""

    @property
    def space(self) -> str:
        """The sizes for people."""
        return f"{self.point}: {binary(self.free_bytes)} of {binary(self.total_bytes)} are free"

    def differs(self, other: "DiskReport | None") -> bool:
        """Return whether more than sizes differs from an earlier report."""
        return other is None or (
            (self.pressure, self.problem, self.trimmed_at)
            != (other.pressure, other.problem, other.trimmed_at)
        )

    def to_data(self) -> dict[str, Any]:
        """Return the member of an event, which is never empty."""
        return {
            "point": self.point,
            "totalBytes": self.total_bytes,
            "freeBytes": self.free_bytes,
            "problem": self.problem,
            "trimmedAt": self.trimmed_at,
            "returnedBytes": self.returned_bytes,
        }

    @classmethod
    def from_data(cls, data: Any) -> "DiskReport | None":
        """Return the report in a member of an event; None if it has another form."""
        if not isinstance(data, dict):
            return None
        numbers = [data.get(key, 0) for key in ("totalBytes", "freeBytes", "returnedBytes")]
        if any(type(number) is not int for number in numbers):
            return None
        return cls(
            point=str(data.get("point") or ""),
            total_bytes=numbers[0],
            free_bytes=numbers[1],
            problem=str(data.get("problem") or ""),
            trimmed_at=str(data.get("trimmedAt") or ""),
            returned_bytes=numbers[2],
        )
