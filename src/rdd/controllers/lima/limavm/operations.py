# SPDX-License-Identifier: Apache-2.0
"""What takes longer than a reconciler may: creating, starting, taking over, deleting.

Each virtual machine has one activity at most, a task of its own. The reconciler begins one
and returns; when it ends, the key is looked at again, and the reconciler takes the outcome.
So a download of minutes, or a shutdown that hangs, holds up no other virtual machine, and a
deletion can cancel what runs.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

Kind = Literal["create", "discard", "start", "adopt", "delete"]


class Activity:
    """One thing that is being done to a virtual machine."""

    def __init__(self, kind: Kind, task: asyncio.Task[Any], about: object) -> None:
        self.kind = kind
        self.about = about
        """What it is done with: the version of the template, the grace of a deletion."""
        self._task = task

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    def result(self) -> Any:
        """What came of it; raises what it failed with. CancelledError if it was cancelled."""
        return self._task.result()

    async def cancel(self) -> None:
        """Return when it has ended, early if possible; how it ended does not matter."""
        self._task.cancel()
        await asyncio.wait([self._task])


class Activities:
    """The activities of all virtual machines, by name."""

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._present: dict[str, Activity] = {}

    def get(self, name: str) -> Activity | None:
        """What is being done, or was and whose outcome nobody has taken yet."""
        return self._present.get(name)

    def begin(
        self, name: str, kind: Kind, work: Coroutine[Any, Any, Any], about: object = None
    ) -> None:
        """Do something; nothing else may be going on."""
        if name in self._present:
            work.close()
            raise RuntimeError(f"{name}: {kind} during {self._present[name].kind}")
        task = asyncio.get_running_loop().create_task(work, name=f"rdd-limavm {kind} {name}")
        self._present[name] = Activity(kind, task, about)
        task.add_done_callback(lambda done: self._over(name, done))

    def take(self, name: str, kind: Kind) -> Activity | None:
        """An activity of this kind that has ended; it is forgotten here."""
        found = self._present.get(name)
        if found is None or found.kind != kind or not found.is_done:
            return None
        return self._present.pop(name)

    async def cancel(self, name: str) -> None:
        """End what is being done, and forget its outcome."""
        found = self._present.get(name)
        if found is not None:
            await found.cancel()
            self._present.pop(name, None)

    async def cancel_all(self) -> None:
        """End everything."""
        await asyncio.gather(*(self.cancel(name) for name in list(self._present)))

    def _over(self, name: str, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # the reconciler reads it; a daemon that ends does not
        self._ended(name)
