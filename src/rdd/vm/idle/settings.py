# SPDX-License-Identifier: Apache-2.0
"""The settings of idle detection, and `idle.json`, by which the host agent gets them.

A file instead of a message: an agent that starts while no daemon runs reads it, too.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically

IdleAction = Literal["none", "pause", "suspend", "stop"]
ACTIONS: Final[tuple[IdleAction, ...]] = get_args(IdleAction)

_LARGEST = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleSettings:
    """When a machine counts as idle, and what happens then."""

    action: IdleAction = "none"
    after_s: float = 300
    cpu_percent: float = 5
    """A container that uses more of one CPU is not idle."""
    network_bytes_per_s: float = 1024
    """A container that sends and receives more is not idle."""

    def write(self, path: Path) -> None:
        """Write the file; without an action there is none. Raises HostError."""
        if self.action == "none":
            remove(path)
        else:
            write_atomically(path, json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> "IdleSettings":
        """Return the settings in a file; those without an action if it is missing or damaged."""
        try:
            return cls.from_data(json.loads(read_text(path) or "{}"))
        except (ValueError, TypeError, HostError):
            return cls()

    @classmethod
    def from_data(cls, data: Any) -> "IdleSettings":
        """Return the settings in a JSON object. Raises TypeError, ValueError."""
        settings = cls(**data)
        numbers = (settings.after_s, settings.cpu_percent, settings.network_bytes_per_s)
        if settings.action not in ACTIONS or not all(0 <= n <= _LARGEST for n in numbers):
            raise ValueError(f"no settings of idle detection: {data}")
        if not settings.after_s:
            raise ValueError("the idle time must not be 0")
        return settings
