# SPDX-License-Identifier: Apache-2.0
"""The interface of the controller to `rdd.vm.machines.Machines`; tests replace it by a fake."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from rdd.vm.drivers.storage_protocol import Storage
from rdd.vm.idle.settings import IdleSettings
from rdd.vm.instance_dir import InstanceStatus, LimaHome
from rdd.vm.lifecycle.observation import Observation

GRACE_S = 30.0
"""The grace period of a shutdown before the machine is killed."""

STABLE_S = 60.0
"""After this run time a start counts as successful, and earlier failures are reset."""


class VmEnvironment(Protocol):
    """The virtual machines of this instance."""

    @property
    def home(self) -> LimaHome:
        """The directory of the instances."""

    async def create(
        self,
        name: str,
        text: str,
        *,
        progress: Callable[[str], None],
        clone_of: str = "",
        driver: str = "",
    ) -> None:
        """Create an instance; a failed or cancelled creation leaves nothing."""

    def inspect(self, name: str) -> InstanceStatus:
        """Derive the status from files and processes."""

    def phase(self, name: str) -> Observation:
        """Return the phase of a machine that this process observes."""

    def template_text(self, name: str) -> str | None:
        """Return the template on disk."""

    def write_template(self, name: str, text: str) -> None:
        """Replace the template; effective from the next start. Raises TemplateError, HostError."""

    async def start(self, name: str) -> None:
        """Start a host agent, which starts the machine."""

    async def adopt(self, name: str) -> bool:
        """Adopt a machine whose agent is orphaned or dead; False if that is impossible."""

    def stop(self, name: str, *, grace_s: float, suspend: bool = False) -> None:
        """Start to stop or suspend a machine."""

    def storage(self, name: str) -> AbstractAsyncContextManager[Storage]:
        """Open the disk of a stopped machine. Raises Busy, HostError."""

    async def describe_storage(self, name: str) -> dict[str, Any]:
        """Return size and snapshots of a disk. Raises HostError."""

    async def grow(self, name: str) -> None:
        """Grow the disk of a running guest to the size in its template.

        Raises HostError if that takes a restart.
        """

    async def trim(self, name: str) -> str:
        """Trim the disk of a running guest. Raises Busy, HostError."""

    async def set_idle(self, name: str, settings: IdleSettings) -> str:
        """Set idle detection; return why it has no effect, or an empty text. Raises HostError."""

    async def delete(
        self,
        name: str,
        *,
        grace_s: float,
        keep_logs_in: Path | None,
        use_trash: bool,
        details: Mapping[str, str] | None = None,
    ) -> None:
        """Stop a machine and remove its directory, or move it to the trash with `details`."""

    async def restore(self, name: str, entry_id: str) -> None:
        """Create an instance from an entry of the trash. Raises HostError."""

    async def restore_snapshot(self, name: str, snapshot: str) -> None:
        """Create an instance from a snapshot. Raises HostError."""

    async def drain(self, *, budget_s: float) -> None:
        """Stop all machines concurrently."""

    async def sweep(self) -> None:
        """Remove the remains of interrupted deletions."""

    async def close(self) -> None:
        """Detach from all machines; running ones stay."""


MakeVmEnvironment = Callable[[Callable[[str], None]], VmEnvironment]
"""Creates the environment; it calls the given callback with the name of a changed machine."""
