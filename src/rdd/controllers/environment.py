# SPDX-License-Identifier: Apache-2.0
"""What controllers know of the machine and the instance they run for.

Every controller is made by a factory that is handed this value; none looks at the
environment, the home directory or the command line by itself. So two instances can
live in one process, and a test says everything a controller can see.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rdd.instance import Instance


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The world outside of the API, as a controller is given it."""

    instance: Instance
    home: Path
    """The user's home directory."""
    environment: Mapping[str, str]
    """The environment of the process, taken once when it started."""
    agent_command: tuple[str, ...]
    """What a host agent is started with; its own arguments follow."""
    version: str
    """Of rdd."""
