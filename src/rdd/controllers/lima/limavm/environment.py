# SPDX-License-Identifier: Apache-2.0
"""What the controller uses of `rdd.vm.machines.Machines`; tests put something else in its place."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from rdd.vm.drivers.protocol import Storage
from rdd.vm.instance_dir import InstanceStatus, LimaHome
from rdd.vm.lifecycle.observation import Observation

GRACE_S = 30.0
"""How long a virtual machine may take to shut down before it is ended by force."""

STABLE_S = 60.0
"""A virtual machine that has run for so long was started well: its failures are forgotten."""


class MachineRoom(Protocol):
    """The virtual machines of this instance."""

    @property
    def home(self) -> LimaHome:
        """Where their directories are."""

    async def create(
        self,
        name: str,
        text: str,
        *,
        progress: Callable[[str], None],
        clone_of: str = "",
        driver: str = "",
    ) -> None:
        """Make an instance; nothing is left of one that fails or is cancelled."""

    def inspect(self, name: str) -> InstanceStatus:
        """What files and processes say."""

    def phase(self, name: str) -> Observation:
        """How far a machine is, as far as this process follows it."""

    def template_text(self, name: str) -> str | None:
        """The template on disk."""

    def write_template(self, name: str, text: str) -> None:
        """Change it; counts from the next start. Raises TemplateError, HostError."""

    async def start(self, name: str) -> None:
        """Start a host agent, which starts the machine."""

    async def adopt(self, name: str) -> bool:
        """Take over a machine whose agent is an orphan or dead; False if that is impossible."""

    def stop(self, name: str, *, grace_s: float, suspend: bool = False) -> None:
        """Begin to stop a machine, or to suspend it."""

    def storage(self, name: str) -> AbstractAsyncContextManager[Storage]:
        """The disk of a machine that does not run. Raises Busy, HostError."""

    async def describe_storage(self, name: str) -> dict[str, Any]:
        """Size and snapshots of a disk. Raises HostError."""

    async def trim(self, name: str) -> str:
        """Have a running guest give back what it does not use. Raises Busy, HostError."""

    async def delete(self, name: str, *, grace_s: float, keep_logs_in: Path | None) -> None:
        """Stop a machine and remove its directory."""

    async def drain(self, *, budget_s: float) -> None:
        """Stop all machines at the same time."""

    async def sweep(self) -> None:
        """Remove what deletions left that a crash interrupted."""

    async def close(self) -> None:
        """Look after no machine any more; those that run go on."""


MakeMachines = Callable[[Callable[[str], None]], MachineRoom]
"""Makes the machine room; what it is given is called with the name of a machine that changed."""
