# SPDX-License-Identifier: Apache-2.0
"""The end of a LimaVM: what runs is shut down, the instance removed, the owned released.

The shutdown is graceful within a bound. The bound is, in this order: what the annotation
`deletionGracePeriodSeconds` says, what the client's DELETE said, GRACE_S. A smaller one that
comes later (`--force` after a deletion that takes too long) counts at once.

The finalizer goes last, and only when everything before it has worked.
"""

import asyncio
from pathlib import Path

from rdd.api import names
from rdd.controllers.lima.limavm import report
from rdd.controllers.lima.limavm.environment import GRACE_S, MachineRoom
from rdd.controllers.lima.limavm.operations import Activities
from rdd.controllers.lima.limavm.reconcile_pass import Look
from rdd.kinds.limavm import LimaVM
from rdd.runtime import CLEANUP, Context, Result, delete_owned, remove_finalizer


class Deletion:
    """Removes instances whose LimaVM is being deleted.

    `graces` has the grace periods of DELETE requests by uid. Logs are kept in a directory
    below `log_dir`, if one is given.
    """

    def __init__(
        self,
        context: Context,
        machines: MachineRoom,
        activities: Activities,
        graces: dict[str, float],
        *,
        log_dir: Path | None,
    ) -> None:
        self._client = context.client
        self._machines = machines
        self._activities = activities
        self._graces = graces
        self._log_dir = log_dir

    async def step(self, look: Look) -> Result:
        """Do what is next; the LimaVM is gone at the end, or held by finalizers of others."""
        name, grace_s = look.name, self._grace_s(look)
        activity = self._activities.get(name)
        if activity is not None and activity.kind == "delete":
            if not activity.is_done:
                if not (isinstance(activity.about, float) and grace_s < activity.about):
                    return Result.done()
                await self._activities.cancel(name)
            elif (result := await self._take_outcome(look)) is not None:
                return result
            else:
                return await self.finish(look)
        elif activity is not None:
            # A download or a start; nobody wants its outcome any more.
            await self._activities.cancel(name)
        if CLEANUP not in (look.vm.raw["metadata"].get("finalizers") or ()):
            return Result.done()
        if not self._machines.home.directory(name).exists():
            return await self.finish(look)
        if wait_s := look.memory.stopping.left_s(grace_s):
            return Result.requeue(wait_s)
        work = self._machines.delete(name, grace_s=grace_s, keep_logs_in=self._log_dir)
        self._activities.begin(name, "delete", work, grace_s)
        return Result.done()

    async def _take_outcome(self, look: Look) -> Result | None:
        activity = self._activities.take(look.name, "delete")
        assert activity is not None
        try:
            activity.result()
        except asyncio.CancelledError:
            return Result.requeue(0)
        except Exception as error:
            wait_s = look.memory.stopping.failed(activity.about)
            await look.say(report.stop_failed(str(error) or type(error).__name__))
            return Result.requeue(wait_s)
        return None

    async def finish(self, look: Look) -> Result:
        """Release what the LimaVM owns, and the LimaVM."""
        await delete_owned(self._client, look.vm.raw)
        await remove_finalizer(self._client, LimaVM, look.vm.raw, CLEANUP)
        self._graces.pop(look.vm.raw["metadata"]["uid"], None)
        return Result.done()

    def _grace_s(self, look: Look) -> float:
        text = look.annotations.get(names.DELETION_GRACE, "")
        if text.isascii() and text.isdigit():
            return float(text)
        return float(self._graces.get(look.vm.raw["metadata"]["uid"], GRACE_S))
