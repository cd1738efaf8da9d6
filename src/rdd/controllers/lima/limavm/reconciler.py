# SPDX-License-Identifier: Apache-2.0
"""The reconciler of LimaVMs.

A pass reads the LimaVM from the server instead of the cache: there are few, and the
decisions start and stop processes. Then it executes the steps, each in a module of its own:

    deletion    while the LimaVM is being deleted
    creation    until the instance exists on disk
    power       from then on

Long work runs as an operation beside the worker (see `operations`); its end enqueues the
key, and so does every change that a host agent reports.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from rdd.api import errors, names
from rdd.controllers.lima.limavm import reasons
from rdd.controllers.lima.limavm.creation import InstanceCreation
from rdd.controllers.lima.limavm.deletion import LimaVMDeletion
from rdd.controllers.lima.limavm.machines_interface import GRACE_S, MakeVmEnvironment
from rdd.controllers.lima.limavm.operations import Operations
from rdd.controllers.lima.limavm.power import PowerControl
from rdd.controllers.lima.limavm.reconcile_pass import ReconcilePass, VmState
from rdd.controllers.lima.limavm.start_check import StartCheck
from rdd.controllers.lima.limavm.status import LimaVMStatusWriter
from rdd.controllers.lima.limavm.templates import TemplateCopies
from rdd.controllers.lima.limavm.uniqueness import NameReservations, name_in_use, older_namesake
from rdd.host.errors import HostError
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Condition, Context, ObjectKey, Result, is_deleting, resource_of
from rdd.vm.instance_dir import InstanceStatus, InvalidName, check_name
from rdd.vm.lifecycle.observation import Phase

log = logging.getLogger("rdd.controllers.limavm")

_HOST_ERROR_RETRY_S = 5.0

DRAIN_S = 40.0
"""The time budget to stop all virtual machines with the daemon."""


class LimaVMReconciler:
    """Reconciles virtual machines with their LimaVMs."""

    def __init__(
        self,
        context: Context,
        make_machines: MakeVmEnvironment,
        reservations: NameReservations,
        grace_periods: dict[str, float],
        *,
        log_dir: Path | None = None,
        start_check: StartCheck | None = None,
    ) -> None:
        self._context = context
        self._reservations = reservations
        self._vms = context.cache.of(LimaVM)
        self._states: dict[str, VmState] = {}
        self._keys: dict[str, ObjectKey] = {}
        machines = self._machines = make_machines(self._enqueue)
        self._operations = Operations(self._enqueue)
        self._clock_offset = context.metrics.own_gauge(
            "rdd_limavm_clock_offset_seconds",
            "Seconds that the clock of a guest is ahead; 0 within the tolerance of 1 s.",
            "name",
        )
        self._status = LimaVMStatusWriter(context)
        self._copies = TemplateCopies(context.client)
        self._creation = InstanceCreation(context, machines, self._operations, self._copies)
        self._power = PowerControl(context, machines, self._operations, start_check)
        self._deletion = LimaVMDeletion(
            context, machines, self._operations, grace_periods, log_dir=log_dir
        )

    async def begin(self) -> None:
        """Mark running machines as unknown: they may have ended with the previous process."""
        for vm in self._vms.list():
            if reasons.status_of(vm, reasons.RUNNING) == "True":
                with contextlib.suppress(errors.NotFound):
                    await self._status.write(vm, reasons.RECONCILING, remove={reasons.DEGRADED})

    async def reconcile(self, key: ObjectKey) -> Result:
        """Execute the next steps for a LimaVM."""
        self._measure_clock(key.name)
        try:
            raw = await self._context.client.get(
                resource_of(LimaVM), key.name, namespace=key.namespace
            )
        except errors.NotFound:
            await self._release(key)
            return Result.done()
        self._reservations.release(key.name)
        vm = LimaVM.of(raw)
        state = self._states.setdefault(key.name, VmState(self._context.clock))
        vm_pass = ReconcilePass(vm, state, self._status, self._context.client)
        try:
            return await self._execute_steps(vm_pass)
        except errors.NotFound:
            return Result.requeue(0)  # deleted meanwhile
        except HostError as error:
            # Any step may fail, for example on an unreadable disk: report it.
            await vm_pass.write_status(_failure_condition(vm_pass.vm, str(error)), failure=error)
            return Result.requeue(_HOST_ERROR_RETRY_S)

    async def _execute_steps(self, vm_pass: ReconcilePass) -> Result:
        if obstacle := self._obstacle(vm_pass):
            if is_deleting(vm_pass.vm.raw):
                return await self._deletion.finish(vm_pass)
            await vm_pass.write_status(reasons.create_failed(obstacle))
            return Result.done()
        self._keys[vm_pass.name] = vm_pass.key
        if is_deleting(vm_pass.vm.raw):
            return await self._deletion.step(vm_pass)
        if names.RETRY_REQUESTED in vm_pass.annotations:
            await self._retry(vm_pass)
        result = await self._creation.step(vm_pass)
        return result if result is not None else await self._power.step(vm_pass)

    async def _retry(self, vm_pass: ReconcilePass) -> None:
        """Forget the failures, so that the steps of this pass try again."""
        vm_pass.state.create_backoff.reset()
        vm_pass.state.start_backoff.reset()
        if not reasons.is_created(vm_pass.vm):
            await vm_pass.write_status(reasons.PENDING)
        await vm_pass.remove_annotation(names.RETRY_REQUESTED)

    def _measure_clock(self, name: str) -> None:
        """Keep the metric of a guest while it runs; each change enqueues a pass."""
        seen = self._machines.phase(name)
        if (report := seen.clock) is not None and seen.phase is Phase.RUNNING:
            self._clock_offset.read(lambda: report.ahead_s, name)
        else:
            self._clock_offset.forget(name)

    def _obstacle(self, vm_pass: ReconcilePass) -> str:
        """Return why a LimaVM that passed admission cannot have an instance; empty if it can."""
        older = older_namesake(vm_pass.vm, self._vms.list())
        if older is not None:
            return name_in_use(vm_pass.name, older.raw["metadata"]["namespace"])
        try:
            check_name(vm_pass.name)
        except InvalidName as error:
            return str(error)
        return ""

    async def drain(self) -> None:
        """Stop all virtual machines concurrently, and report it."""
        await self._operations.cancel_all()
        await self._machines.drain(budget_s=DRAIN_S)
        await asyncio.gather(*(self._report_stopped(key) for key in self._keys.values()))

    async def run(self) -> None:
        """Clean up after a crash, then wait; operations are cancelled at the end."""
        try:
            await self._machines.sweep()
            await asyncio.get_running_loop().create_future()
        finally:
            await self._operations.cancel_all()
            await self._machines.close()

    async def _report_stopped(self, key: ObjectKey) -> None:
        try:
            raw = await self._context.client.get(
                resource_of(LimaVM), key.name, namespace=key.namespace
            )
            vm = LimaVM.of(raw)
            running = reasons.reason_of(vm, reasons.RUNNING)
            if (
                running in ("", "Stopped")
                or self._machines.inspect(key.name) is InstanceStatus.RUNNING
            ):
                return
            await self._status.write(vm, reasons.STOPPED_NOW, remove={reasons.DEGRADED})
        except (errors.ApiError, HostError) as error:
            log.warning("limavm: %s: cannot report the stop: %s", key, error)

    async def _release(self, key: ObjectKey) -> None:
        if self._keys.get(key.name) == key:
            await self._operations.cancel(key.name)
            if self._machines.inspect(key.name) in (InstanceStatus.RUNNING, InstanceStatus.BROKEN):
                # The finalizer was removed by force. The disk stays; the next LimaVM of this
                # name gets a new one.
                self._machines.stop(key.name, grace_s=GRACE_S)
            del self._keys[key.name]
            self._states.pop(key.name, None)
        await self._copies.release(key)
        for vm in self._vms.list():
            # A LimaVM of the same name may wait for this one.
            if vm.raw["metadata"]["name"] == key.name:
                self._context.enqueue(ObjectKey.of(vm.raw))

    def _enqueue(self, name: str) -> None:
        key = self._keys.get(name)
        if key is not None:
            self._context.enqueue(key)


def _failure_condition(vm: LimaVM, message: str) -> Condition:
    if not reasons.is_created(vm):
        return reasons.create_failed(message)
    if reasons.status_of(vm, reasons.RUNNING) == "True":
        return reasons.degraded([message])
    return reasons.start_failed(message) if vm.spec.running else reasons.stop_failed(message)
