# SPDX-License-Identifier: Apache-2.0
"""One look at one LimaVM: the object as read, and as the steps of the reconciler change it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from rdd.api.types import Object
from rdd.client import Client
from rdd.controllers.lima.limavm.backoff import Backoff
from rdd.controllers.lima.limavm.report import Reporter, Says
from rdd.kinds.limavm import LimaVM
from rdd.runtime import ObjectKey, resource_of


class Memory:
    """What is known of one virtual machine beside the API and the disk.

    It may be lost at any time: what must survive a crash is in the status, on disk, or
    visible in the processes.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.creating = Backoff(clock)
        self.starting = Backoff(clock)
        self.stopping = Backoff(clock)
        self.stops_for: Literal["", "stop", "restart", "reset"] = ""
        """Why it is being stopped, if this process does it."""
        self.progress = ""
        """How far the creation is, in words."""
        self.ran_since: float | None = None
        """When it came up, if it runs."""
        self.has_counted_end = False
        """Whether the failure is noted that left it without an agent."""
        self.is_taken_over = False
        """Whether a machine that ran has got a new agent, which has not said yet that it does."""

    def forget_run(self) -> None:
        """A new run begins."""
        self.stops_for = ""
        self.ran_since = None
        self.has_counted_end = False
        self.is_taken_over = False


class Look:
    """A LimaVM, read anew for this look, and what is remembered of it."""

    def __init__(self, vm: LimaVM, memory: Memory, reporter: Reporter, client: Client) -> None:
        self.vm = vm
        self.memory = memory
        self.key = ObjectKey.of(vm.raw)
        self.name = self.key.name
        self.reporter = reporter
        self._client = client
        self.copy: Object = {}
        """The ConfigMap with the template, once the instance exists."""
        self.problem = ""
        """What is wrong although the machine may run."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the LimaVM."""
        return self.vm.raw["metadata"].get("annotations") or {}

    @property
    def generation(self) -> int:
        """The generation of the spec."""
        return int(self.vm.raw["metadata"].get("generation") or 0)

    @property
    def wanted(self) -> tuple[str, int]:
        """What an attempt is made with: a failure means nothing for anything else."""
        version = (self.copy.get("metadata") or {}).get("resourceVersion", "")
        return str(version), self.generation

    async def say(self, *says: Says, **changes: Any) -> None:
        """Write conditions and other members of the status; see `Reporter.write`."""
        self.vm = await self.reporter.write(self.vm, *says, **changes)

    async def drop_annotation(self, annotation: str) -> None:
        """Remove an annotation."""
        changed = await self._client.patch(
            resource_of(LimaVM),
            self.name,
            {"metadata": {"annotations": {annotation: None}}},
            namespace=self.key.namespace,
        )
        self.vm = LimaVM.of(changed)
