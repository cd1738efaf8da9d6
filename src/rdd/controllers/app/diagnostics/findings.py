# SPDX-License-Identifier: Apache-2.0
"""What a check knows, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rdd.api.types import Object
from rdd.instance import Instance


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check."""

    healthy: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    evidence: Sequence[str] = ()
    next_step: str = ""


def well(reason: str, message: str, *evidence: str) -> Finding:
    """Nothing to do."""
    return Finding("True", reason, message, evidence)


def ill(reason: str, message: str, *evidence: str, next_step: str) -> Finding:
    """Something is wrong, and this is the next step."""
    return Finding("False", reason, message, evidence, next_step)


def not_applicable(message: str) -> Finding:
    """What would be checked is not in use."""
    return well("NotApplicable", message)


@dataclass(frozen=True, slots=True)
class Facts:
    """What checks look at, besides the machine itself."""

    instance: Instance
    home: Path
    environment: Mapping[str, str]
    app: Object | None = None
    """The App, if there is one and it is known."""

    @property
    def docker_directory(self) -> Path:
        """Where the docker CLI keeps its configuration."""
        return Path(self.environment.get("DOCKER_CONFIG") or self.home / ".docker")

    @property
    def wants_running(self) -> bool:
        """Whether the App should run."""
        return bool(self._spec.get("running"))

    @property
    def engine(self) -> str:
        """The container engine of the App."""
        return str((self._spec.get("containerEngine") or {}).get("name") or "moby")

    def condition(self, kind: str) -> Object:
        """A condition of the App; empty if it has none of that type."""
        conditions = ((self.app or {}).get("status") or {}).get("conditions") or ()
        return next((c for c in conditions if c["type"] == kind), {})

    def holds(self, kind: str) -> bool:
        """Whether a condition of the App is true."""
        return self.condition(kind).get("status") == "True"

    @property
    def _spec(self) -> Object:
        return (self.app or {}).get("spec") or {}
