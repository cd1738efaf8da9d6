# SPDX-License-Identifier: Apache-2.0
"""The state of idle detection as a host agent reports it, and the record of a pause.

The event stream carries it as rdd's own member `idle`, which Lima's readers ignore. The record,
`paused.json`, is written before a machine is paused and removed after it runs again. A new
agent that finds one wakes the machine first: after the end of any process a machine is either
running, or paused with a record.
"""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleReport:
    """What idle detection does for one machine; all texts are empty if they do not apply."""

    action: str = ""
    """The action in effect: pause, suspend or stop; none if the driver supports none."""
    problem: str = ""
    """Why that is not the wanted action, or why the last pause failed."""
    paused_since: str = ""
    """The time of the pause while the machine is paused."""
    is_suspended: bool = False
    """The memory of the paused machine is saved, and given back."""
    cause: str = ""
    """Why it is paused, or what woke it up."""
    woken_at: str = ""
    """The time of the last wake-up."""
    awake_because: str = ""
    """The container that prevented the last pause."""
    wants_stop: bool = False
    """The machine is idle, and its action is stop."""
    has_failed: bool = False
    """The last pause failed."""

    def to_data(self) -> dict[str, Any]:
        """Return the member of an event; empty values are left out."""
        return {name: value for name, value in asdict(self).items() if value}

    @classmethod
    def from_data(cls, data: Any) -> "IdleReport | None":
        """Return the report in a member of an event; None if it has another form."""
        if not isinstance(data, dict):
            return None
        values: dict[str, Any] = {
            field.name: str(data.get(field.name) or "")
            if field.type is str
            else data.get(field.name) is True
            for field in fields(cls)
        }
        return cls(**values)


@dataclass(frozen=True, slots=True)
class PauseRecord:
    """A machine that is paused, or about to be."""

    since: str
    cause: str

    def write(self, path: Path) -> None:
        """Write the record durably. Raises HostError."""
        write_atomically(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> "PauseRecord | None":
        """Return the record; None without one. A damaged record is one without texts."""
        try:
            text = read_text(path)
        except HostError:
            return cls("", "")
        if text is None:
            return None
        try:
            data = json.loads(text)
            return cls(str(data["since"]), str(data["cause"]))
        except (ValueError, KeyError, TypeError):
            return cls("", "")

    @staticmethod
    def clear(path: Path) -> None:
        """Remove the record. Raises HostError."""
        remove(path)
