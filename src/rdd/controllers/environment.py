# SPDX-License-Identifier: Apache-2.0
"""The host environment of controllers: paths, variables, version.

The factory of every controller gets this value; no controller reads the process environment,
the home directory or the command line. So two instances can run in one process, and a test
defines everything that a controller can see.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rdd.instance import Instance


@dataclass(frozen=True, slots=True)
class ControllerEnvironment:
    """Everything outside of the API that a controller may use."""

    instance: Instance
    home: Path
    """The user's home directory."""
    environment: Mapping[str, str]
    """Environment variables, a snapshot taken when the process started."""
    agent_command: tuple[str, ...]
    """Command that starts a host agent; the agent's own arguments are appended."""
    version: str
    """Version of rdd."""
