# SPDX-License-Identifier: Apache-2.0
"""How far the clock of a guest is off, as a host agent reports it.

The event stream carries it as rdd's own member `clock`, which Lima's readers ignore. Guests
report whole seconds: an offset within the tolerance of 1 s is reported as 0.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReport:
    """The last comparison of a guest's clock with that of this computer."""

    ahead_s: int = 0
    """Seconds that the guest is ahead; 0 within the tolerance, or if it is unknown."""
    problem: str = ""
    """Why the clock is not set; empty if it is right."""
    set_at: str = ""
    """When it was last set."""
    was_ahead_s: int = 0
    """How far it was off then."""

    def to_data(self) -> dict[str, Any]:
        """Return the member of an event, which is never empty."""
        return {
            "aheadSeconds": self.ahead_s,
            "problem": self.problem,
            "setAt": self.set_at,
            "wasAheadSeconds": self.was_ahead_s,
        }

    @classmethod
    def from_data(cls, data: Any) -> "ClockReport | None":
        """Return the report in a member of an event; None if it has another form."""
        if not isinstance(data, dict):
            return None
        ahead, was_ahead = data.get("aheadSeconds", 0), data.get("wasAheadSeconds", 0)
        if type(ahead) is not int or type(was_ahead) is not int:
            return None
        return cls(
            ahead_s=ahead,
            problem=str(data.get("problem") or ""),
            set_at=str(data.get("setAt") or ""),
            was_ahead_s=was_ahead,
        )


def offset_text(ahead_s: int) -> str:
    """Return an offset for people: `63 s behind`."""
    return f"{abs(ahead_s)} s {'ahead' if ahead_s > 0 else 'behind'}"
