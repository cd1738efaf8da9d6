# SPDX-License-Identifier: Apache-2.0
"""The capability of drivers to pause a machine that is idle, and to wake it.

`rdd.vm.idle.monitor` decides, in the host agent; a `Pausable` observes the clients for it, and
stops and continues the machine. Not every machine of a driver is pausable, so `HasPausing` has a
reason instead.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from rdd.vm.idle.activity import Activity
    from rdd.vm.idle.load import Loads
    from rdd.vm.idle.settings import IdleAction
    from rdd.vm.instance_dir import InstanceDirectory


class Pausable(Protocol):
    """Observes the clients of a machine, and can pause it."""

    def idle_problem(self, action: "IdleAction") -> str:
        """Return why idle detection or `action` is impossible here; empty if it is possible."""

    def suspend_problem(self) -> str:
        """Return why an idle machine cannot be suspended; empty if it can."""

    async def observe(self, activity: "Activity", *, is_needed: bool) -> None:
        """Record what clients do. Raises HostError.

        Called before any forward is opened, and whenever `is_needed` changes: without it, an
        observation that costs something may be left out.
        """

    async def loads(self) -> "Loads":
        """Return what the running containers have used. Raises HostError."""

    async def kept_awake(self) -> Sequence[str]:
        """Return what prevents a pause besides activity and load: labels, unobserved clients.

        Raises HostError.
        """

    async def pause(self, action: "IdleAction") -> str:
        """Let nothing in the machine run; return why it is paused instead of suspended, or "".

        Raises HostError; `resume` then follows.
        """

    async def resume(self) -> None:
        """Let everything run again; a no-op if it does. Raises HostError."""


@runtime_checkable
class HasPausing(Protocol):
    """Capability of a `Driver`: its machines may be pausable."""

    @property
    def pausing(self) -> Pausable | str:
        """Idle detection of the machine, or why there is none."""


@runtime_checkable
class Thawable(Protocol):
    """Capability of a provider: processes of a paused machine cannot be killed."""

    def thaw(self, directory: "InstanceDirectory") -> None:
        """Let the processes of a machine without an agent run; a no-op if they do."""
