# SPDX-License-Identifier: Apache-2.0
"""Inputs and results of checks."""

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


def healthy(reason: str, message: str, *evidence: str) -> Finding:
    return Finding("True", reason, message, evidence)


def unhealthy(reason: str, message: str, *evidence: str, next_step: str) -> Finding:
    return Finding("False", reason, message, evidence, next_step)


def not_applicable(message: str) -> Finding:
    """Return the finding for a subject that is not in use."""
    return healthy("NotApplicable", message)


@dataclass(frozen=True, slots=True)
class Facts:
    """The inputs of checks, besides the host itself."""

    instance: Instance
    home: Path
    environment: Mapping[str, str]
    app: Object | None = None
    """The App, if it exists and is known."""

    @property
    def docker_directory(self) -> Path:
        """The configuration directory of the docker CLI."""
        return Path(self.environment.get("DOCKER_CONFIG") or self.home / ".docker")

    @property
    def wants_running(self) -> bool:
        return bool(self._spec.get("running"))

    @property
    def engine(self) -> str:
        return str((self._spec.get("containerEngine") or {}).get("name") or "moby")

    def condition(self, kind: str) -> Object:
        """Return a condition of the App; empty without one."""
        conditions = ((self.app or {}).get("status") or {}).get("conditions") or ()
        return next((c for c in conditions if c["type"] == kind), {})

    def is_true(self, kind: str) -> bool:
        """Return whether a condition of the App is true."""
        return self.condition(kind).get("status") == "True"

    @property
    def _spec(self) -> Object:
        return (self.app or {}).get("spec") or {}
