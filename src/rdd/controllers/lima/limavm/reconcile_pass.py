# SPDX-License-Identifier: Apache-2.0
"""One pass of the reconciler over one LimaVM, and the state kept between passes."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from rdd.api.types import Object
from rdd.client import Client
from rdd.controllers.lima.limavm.backoff import AttemptBackoff
from rdd.controllers.lima.limavm.status import LimaVMStatusWriter
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Condition, ObjectKey, controller_of, resource_of


class VmState:
    """The in-memory state of one virtual machine.

    It may be lost at any time: state that must survive a crash is in the status, on disk, or
    visible in the processes.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.create_backoff = AttemptBackoff(clock)
        self.start_backoff = AttemptBackoff(clock)
        self.stop_backoff = AttemptBackoff(clock)
        self.stop_reason: Literal["", "stop", "restart", "reset", "hold"] = ""
        """Why this process is stopping the machine; empty if it is not."""
        self.progress = ""
        """The progress of the creation, for people."""
        self.running_since: float | None = None
        self.has_counted_end = False
        """Whether the unexpected end of the agent is counted as a failure."""
        self.is_adopted = False
        """Whether a new agent manages a machine that ran before, and has not reported yet."""

    def reset_run(self) -> None:
        """Prepare for a new run of the machine."""
        self.stop_reason = ""
        self.running_since = None
        self.has_counted_end = False
        self.is_adopted = False


class ReconcilePass:
    """A LimaVM, read for this pass and updated by its steps."""

    def __init__(
        self, vm: LimaVM, state: VmState, status: LimaVMStatusWriter, client: Client
    ) -> None:
        self.vm = vm
        self.state = state
        self.key = ObjectKey.of(vm.raw)
        self.name = self.key.name
        self.status = status
        self._client = client
        self.copy: Object = {}
        """The ConfigMap with the template, once the instance exists."""
        self.problem = ""
        """A problem that does not keep the machine from running."""
        self.idle_problem = ""
        """Why idle detection has no effect."""

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.vm.raw["metadata"].get("annotations") or {}

    @property
    def desired(self) -> tuple[str, int]:
        """The version of the template and the generation that an attempt is made with."""
        version = (self.copy.get("metadata") or {}).get("resourceVersion", "")
        return str(version), int(self.vm.raw["metadata"].get("generation") or 0)

    async def write_status(self, *conditions: Condition, **changes: Any) -> None:
        """Write conditions and other members of the status; see `LimaVMStatusWriter.write`."""
        self.vm = await self.status.write(self.vm, *conditions, **changes)

    async def stop_idle(self) -> None:
        """Stop an idle machine on request of its host agent; an App does that for its own."""
        if controller_of(self.vm.raw) is None:
            patch = {"spec": {"running": False}}
            changed = await self._client.patch(
                resource_of(LimaVM), self.name, patch, namespace=self.key.namespace
            )
            self.vm = LimaVM.of(changed)

    async def remove_annotation(self, annotation: str) -> None:
        changed = await self._client.patch(
            resource_of(LimaVM),
            self.name,
            {"metadata": {"annotations": {annotation: None}}},
            namespace=self.key.namespace,
        )
        self.vm = LimaVM.of(changed)
