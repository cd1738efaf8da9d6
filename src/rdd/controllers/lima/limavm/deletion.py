# SPDX-License-Identifier: Apache-2.0
"""Deletes LimaVMs: stops the machine, removes the instance, releases owned objects.

The shutdown is graceful within a grace period: the annotation `deletionGracePeriodSeconds`,
otherwise that of the client's DELETE, otherwise GRACE_S. A shorter one that arrives later
(`--force` after a slow deletion) takes effect at once.

Invariant: the finalizer is removed last, after every other step has succeeded.
"""

import asyncio
import json
from pathlib import Path

from rdd.api import names
from rdd.controllers.lima.limavm import reasons
from rdd.controllers.lima.limavm.machines_interface import GRACE_S, VmEnvironment
from rdd.controllers.lima.limavm.operations import Operations
from rdd.controllers.lima.limavm.reconcile_pass import ReconcilePass
from rdd.kinds.limavm import LimaVM
from rdd.runtime import (
    CLEANUP,
    Context,
    Result,
    controller_of,
    delete_owned,
    remove_finalizer,
)
from rdd.vm.machine_trash import NAMESPACE, OWNER, PARAMS

_LONGEST_GRACE_S = 86400.0


class LimaVMDeletion:
    """Removes instances of LimaVMs that are being deleted.

    `grace_periods` has those of DELETE requests by uid. Logs are kept below `log_dir` if given.
    """

    def __init__(
        self,
        context: Context,
        machines: VmEnvironment,
        operations: Operations,
        grace_periods: dict[str, float],
        *,
        log_dir: Path | None,
    ) -> None:
        self._client = context.client
        self._machines = machines
        self._operations = operations
        self._grace_periods = grace_periods
        self._log_dir = log_dir

    async def step(self, vm_pass: ReconcilePass) -> Result:
        """Execute the next step; finally the LimaVM is gone, or kept by foreign finalizers."""
        name, grace_s = vm_pass.name, self._grace_s(vm_pass)
        operation = self._operations.get(name)
        if operation is not None and operation.kind == "delete":
            if not operation.is_done:
                if not (isinstance(operation.subject, float) and grace_s < operation.subject):
                    return Result.done()
                await self._operations.cancel(name)
            elif (result := await self._take_outcome(vm_pass)) is not None:
                return result
            else:
                return await self.finish(vm_pass)
        elif operation is not None:
            # A download or a start: its outcome is obsolete.
            await self._operations.cancel(name)
        if CLEANUP not in (vm_pass.vm.raw["metadata"].get("finalizers") or ()):
            return Result.done()
        if not self._machines.home.directory(name).exists():
            return await self.finish(vm_pass)
        if retry_s := vm_pass.state.stop_backoff.remaining_s(grace_s):
            return Result.requeue(retry_s)
        work = self._machines.delete(
            name,
            grace_s=grace_s,
            keep_logs_in=self._log_dir,
            use_trash=names.SKIP_TRASH not in vm_pass.annotations,
            details=_details(vm_pass.vm),
        )
        self._operations.start(name, "delete", work, grace_s)
        return Result.done()

    async def _take_outcome(self, vm_pass: ReconcilePass) -> Result | None:
        operation = self._operations.take(vm_pass.name, "delete")
        assert operation is not None
        try:
            operation.result()
        except asyncio.CancelledError:
            return Result.requeue(0)
        except Exception as error:
            retry_s = vm_pass.state.stop_backoff.failed(operation.subject)
            await vm_pass.write_status(reasons.stop_failed(str(error) or type(error).__name__))
            return Result.requeue(retry_s)
        return None

    async def finish(self, vm_pass: ReconcilePass) -> Result:
        """Release owned objects and the LimaVM itself."""
        await delete_owned(self._client, vm_pass.vm.raw)
        await remove_finalizer(self._client, LimaVM, vm_pass.vm.raw, CLEANUP)
        self._grace_periods.pop(vm_pass.vm.raw["metadata"]["uid"], None)
        return Result.done()

    def _grace_s(self, vm_pass: ReconcilePass) -> float:
        text = vm_pass.annotations.get(names.DELETION_GRACE, "")
        if text.isascii() and text.isdigit():
            return min(float(text), _LONGEST_GRACE_S)
        return float(self._grace_periods.get(vm_pass.vm.raw["metadata"]["uid"], GRACE_S))


def _details(vm: LimaVM) -> dict[str, str]:
    """Return what a restoration needs beside the instance directory."""
    details = {NAMESPACE: vm.metadata.namespace}
    if vm.spec.params:
        details[PARAMS] = json.dumps(dict(vm.spec.params))
    if owner := controller_of(vm.raw):
        details[OWNER] = owner["uid"]
    return details
