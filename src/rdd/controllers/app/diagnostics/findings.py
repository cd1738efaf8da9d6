# SPDX-License-Identifier: Apache-2.0
"""Inputs and results of checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rdd.api import names
from rdd.api.types import Object
from rdd.controllers.app.commands import rdd_command
from rdd.instance import Instance

if TYPE_CHECKING:
    from rdd.vm.instance_dir import InstanceDirectory


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check."""

    healthy: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    evidence: Sequence[str] = ()
    next_step: str = ""
    """A command for a shell that resolves the problem or shows its cause."""

    def to_data(self, name: str) -> Object:
        """Return the finding of a check as JSON-compatible data."""
        return {
            "name": name,
            "healthy": self.healthy,
            "reason": self.reason,
            "message": self.message,
            "evidence": list(self.evidence),
            "nextStep": self.next_step,
        }


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
    is_served: bool = True
    """Whether the control plane runs."""

    @property
    def docker_directory(self) -> Path:
        """The configuration directory of the docker CLI."""
        return Path(self.environment.get("DOCKER_CONFIG") or self.home / ".docker")

    @property
    def machine(self) -> "InstanceDirectory":
        """The directory of the App's virtual machine; it may not exist."""
        from rdd.vm.instance_dir import LimaHome

        return LimaHome(self.instance.lima_home).directory(names.APP_VM_NAME)

    @property
    def is_running(self) -> bool:
        """Whether the virtual machine is up: from the App, or from its processes without one."""
        if self.app is not None:
            return self.is_true(names.RUNNING)
        from rdd.vm.instance_dir import InstanceStatus

        return self.machine.status() is InstanceStatus.RUNNING

    @property
    def is_paused(self) -> bool:
        """Whether the virtual machine is paused: it answers nothing, and that is no problem."""
        return self.machine.paused.exists()

    @property
    def is_engine_ready(self) -> bool:
        """Whether the engine is up: from the App, or from its socket without one."""
        if self.app is not None:
            return self.is_true(names.ENGINE_READY)
        return self.is_running and self.instance.docker_socket.exists()

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

    def rdd(self, words: str) -> str:
        """Return a command of rdd that can be pasted into a shell."""
        return rdd_command(self.instance, words)

    @property
    def restart_service(self) -> str:
        """A command that restarts the control plane."""
        return f"{self.rdd('service stop')} && {self.rdd('service start')}"

    @property
    def _spec(self) -> Object:
        return (self.app or {}).get("spec") or {}
