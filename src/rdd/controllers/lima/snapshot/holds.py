# SPDX-License-Identifier: Apache-2.0
"""Holds: machines that are stopped for as long as their files are used.

An annotation asks the limavm controller to stop the machine and not to start it; the status names
who holds it. The desired state of the LimaVM is not changed, so a machine that ran continues by
itself afterwards. The annotation outlives a crash: the machine stays stopped until the operation
has been repeated or the Snapshot is gone.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from rdd.api import errors, names
from rdd.host.errors import HostError
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Context, ObjectKey, conditions_of, find_condition, resource_of

_STOP_S = 180.0
_LIMAVMS = resource_of(LimaVM)


class Holds:
    """The holds of one process."""

    def __init__(self, context: Context) -> None:
        self._client = context.client
        self._vms = context.cache.of(LimaVM)
        self._changed = asyncio.Condition()

    async def changed(self) -> None:
        """Wake those who wait for a LimaVM."""
        async with self._changed:
            self._changed.notify_all()

    @contextlib.asynccontextmanager
    async def held(self, key: ObjectKey, holder: str) -> AsyncIterator[None]:
        """Keep a machine stopped during the block; it then continues if it should run.

        Cancelled by the end of the process, it leaves the hold to the next one.
        Raises HostError if it cannot be stopped.
        """
        try:
            await self.acquire(key, holder)
            yield
        except asyncio.CancelledError:
            raise
        except BaseException:
            await self.release(key, holder)
            raise
        await self.release(key, holder)

    async def acquire(self, key: ObjectKey, holder: str) -> None:
        """Stop a machine, and keep it stopped until `release`. Raises HostError."""
        vm = await self._client.get(_LIMAVMS, key.name, namespace=key.namespace)
        other = _holder(LimaVM.of(vm))
        if other not in ("", holder):
            raise HostError(f'machine "{key.name}" is used by {other}; try again when it is ready')
        version = vm["metadata"]["resourceVersion"]
        await self._client.patch(
            _LIMAVMS,
            key.name,
            {"metadata": {"annotations": {names.HOLD: holder}, "resourceVersion": version}},
            namespace=key.namespace,
        )
        try:
            async with asyncio.timeout(_STOP_S), self._changed:
                await self._changed.wait_for(lambda: self._is_held(key, holder))
        except TimeoutError:
            raise HostError(f'machine "{key.name}" did not stop: {self._state(key)}') from None

    def _is_held(self, key: ObjectKey, holder: str) -> bool:
        vm = self._vms.get(key)
        if vm is None:
            raise HostError(f'machine "{key.name}" was deleted')
        return vm.status.held_by == holder

    def _state(self, key: ObjectKey) -> str:
        vm = self._vms.get(key)
        running = find_condition(conditions_of(vm.raw), names.RUNNING) if vm else None
        return str((running or {}).get("message", "")) or "is the limavm controller running?"

    async def release(self, key: ObjectKey, holder: str) -> None:
        """End a hold; one of another holder stays. Idempotent."""
        with contextlib.suppress(errors.NotFound):
            vm = await self._client.get(_LIMAVMS, key.name, namespace=key.namespace)
            if _holder(LimaVM.of(vm)) == holder:
                await self._client.patch(
                    _LIMAVMS,
                    key.name,
                    {"metadata": {"annotations": {names.HOLD: None}}},
                    namespace=key.namespace,
                )

    async def release_all(self, holder: str) -> None:
        """End all holds of a holder."""
        for vm in list(self._vms.list()):
            if _holder(vm) == holder:
                await self.release(ObjectKey.of(vm.raw), holder)


def _holder(vm: LimaVM) -> str:
    return str((vm.raw["metadata"].get("annotations") or {}).get(names.HOLD, ""))


def holder_of(snapshot: str) -> str:
    """Return the name under which a Snapshot holds machines."""
    return f"snapshot {snapshot}"


def snapshot_of(vm: LimaVM) -> str:
    """Return the Snapshot that holds a machine; empty if none does."""
    kind, _, name = _holder(vm).partition(" ")
    return name if kind == "snapshot" else ""
