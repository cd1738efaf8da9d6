# SPDX-License-Identifier: Apache-2.0
"""Long operations on virtual machines: create, discard, start, adopt, delete.

Each virtual machine has at most one operation, in a task of its own. The reconciler starts
it and returns; the end of the task enqueues the key, and the reconciler takes the outcome.
So a download of minutes, or a shutdown that hangs, does not delay other virtual machines,
and a deletion can cancel the operation in progress.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal

OperationKind = Literal["create", "discard", "start", "adopt", "delete"]


class Operation:
    """One operation, running or finished."""

    def __init__(self, kind: OperationKind, task: asyncio.Task[Any], subject: object) -> None:
        self.kind = kind
        self.subject = subject
        """The desired state of an attempt, or the grace period of a deletion."""
        self._task = task

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def result(self) -> Any:
        """Return the result or raise the failure; CancelledError if it was cancelled."""
        return self._task.result()

    async def cancel(self) -> None:
        """Cancel the task and wait for its end, whatever its outcome."""
        self._task.cancel()
        await asyncio.wait([self._task])


class Operations:
    """The operations of all virtual machines, by name.

    Invariant: a virtual machine has at most one operation until its outcome is taken.
    """

    def __init__(self, ended: Callable[[str], None]) -> None:
        self._ended = ended
        self._present: dict[str, Operation] = {}

    def get(self, name: str) -> Operation | None:
        """Return the operation that is running or whose outcome is not taken yet."""
        return self._present.get(name)

    def start(
        self,
        name: str,
        kind: OperationKind,
        work: Coroutine[Any, Any, Any],
        subject: object = None,
    ) -> None:
        """Start an operation. Raises RuntimeError if there is one."""
        if name in self._present:
            work.close()
            raise RuntimeError(f"{name}: {kind} during {self._present[name].kind}")
        task = asyncio.get_running_loop().create_task(work, name=f"rdd-limavm {kind} {name}")
        self._present[name] = Operation(kind, task, subject)
        task.add_done_callback(lambda done: self._task_done(name, done))

    def take(self, name: str, kind: OperationKind) -> Operation | None:
        """Remove and return a finished operation of this kind."""
        found = self._present.get(name)
        if found is None or found.kind != kind or not found.is_done:
            return None
        return self._present.pop(name)

    async def cancel(self, name: str) -> None:
        """Cancel an operation and drop its outcome."""
        found = self._present.get(name)
        if found is not None:
            await found.cancel()
            self._present.pop(name, None)

    async def cancel_all(self) -> None:
        await asyncio.gather(*(self.cancel(name) for name in list(self._present)))

    def _task_done(self, name: str, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: a stopping daemon does not take it
        self._ended(name)
