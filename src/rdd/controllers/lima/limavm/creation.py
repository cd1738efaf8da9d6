# SPDX-License-Identifier: Apache-2.0
"""Creates the instance of a LimaVM on disk.

The order of the steps makes every crash harmless: the next pass derives the progress from
the state it finds. `.preparing` on disk means an incomplete creation, an instance without a
recorded template an incomplete deletion; the controller removes both and starts over.
"""

import asyncio

from rdd.api import errors, names
from rdd.controllers.lima.limavm import reasons
from rdd.controllers.lima.limavm.machines_interface import VmEnvironment
from rdd.controllers.lima.limavm.operations import Operation, Operations
from rdd.controllers.lima.limavm.reconcile_pass import ReconcilePass
from rdd.controllers.lima.limavm.templates import TemplateCopies, copy_name, wanted_text
from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.runtime import Context, Result
from rdd.vm.lifecycle.observation import Phase
from rdd.vm.template import TemplateError

_RETRY_S = 1.0


class InstanceCreation:
    """Creates instances, and recreates them after a reset."""

    def __init__(
        self,
        context: Context,
        machines: VmEnvironment,
        operations: Operations,
        copies: TemplateCopies,
    ) -> None:
        self._context = context
        self._machines = machines
        self._operations = operations
        self._copies = copies

    async def step(self, vm_pass: ReconcilePass) -> Result | None:
        """Execute the next step; None if the instance exists and its template is loaded."""
        if reasons.condition_of(vm_pass.vm, reasons.CREATED) is None:
            await vm_pass.write_status(reasons.PENDING)
        operation = self._operations.get(vm_pass.name)
        if operation is not None and operation.kind in ("create", "discard"):
            if not operation.is_done:
                await self._report_progress(vm_pass)
                return Result.done()
            if (result := await self._take_outcome(vm_pass, operation)) is not None:
                return result
        if self._starts_discarding(vm_pass):
            return Result.done()
        if names.RESET_REQUESTED in vm_pass.annotations and not reasons.is_created(vm_pass.vm):
            await vm_pass.remove_annotation(names.RESET_REQUESTED)  # the instance is already gone
            if names.SKIP_TRASH in vm_pass.annotations:
                await vm_pass.remove_annotation(names.SKIP_TRASH)
        if (result := await self._provide_template(vm_pass)) is not None:
            return result
        if reasons.is_created(vm_pass.vm):
            if not self._is_missing(vm_pass):
                return None
            vm_pass.status.warn(
                vm_pass.vm, "InstanceMissing", "The instance directory is missing; it is recreated"
            )
            await vm_pass.write_status(
                reasons.PENDING, members={"observedTemplateResourceVersion": None}
            )
        return await self._create(vm_pass)

    async def _provide_template(self, vm_pass: ReconcilePass) -> Result | None:
        has_copy = bool(vm_pass.vm.status.template_config_map)
        try:
            on_disk = self._machines.template_text(vm_pass.name) if has_copy else None
            copy = await self._copies.ensure(vm_pass.vm, on_disk=on_disk)
        except (errors.NotFound, errors.AlreadyExists) as error:
            return await self._failed(vm_pass, error.message)
        if copy is None:
            return Result.requeue(_RETRY_S)
        vm_pass.copy = copy
        if not has_copy:
            await vm_pass.write_status(members={"templateConfigMap": copy_name(vm_pass.name)})
        if names.TEMPLATE in vm_pass.annotations:
            await vm_pass.remove_annotation(names.TEMPLATE)
        return None

    async def _create(self, vm_pass: ReconcilePass) -> Result | None:
        version, name = vm_pass.desired[0], vm_pass.name
        if self._machines.home.directory(name).exists():
            await vm_pass.write_status(
                reasons.EXISTS, members={"observedTemplateResourceVersion": version}
            )
            return None
        if retry_s := vm_pass.state.create_backoff.remaining_s(vm_pass.desired):
            return Result.requeue(retry_s)
        try:
            text = wanted_text(vm_pass.vm, vm_pass.copy)
        except TemplateError as error:
            return await self._failed(vm_pass, str(error))
        if entry := vm_pass.annotations.get(names.RESTORE_FROM):
            snapshot = entry.removeprefix(names.RESTORE_SNAPSHOT_PREFIX)
            work = (
                self._machines.restore(name, entry)
                if snapshot == entry
                else self._machines.restore_snapshot(name, snapshot)
            )
            self._operations.start(name, "create", work, vm_pass.desired)
            return Result.done()
        state, key = vm_pass.state, vm_pass.key

        def progress(message: str) -> None:
            state.progress = message
            self._context.enqueue(key)

        work = self._machines.create(
            name,
            text,
            progress=progress,
            clone_of=vm_pass.annotations.get(names.CLONE_OF, ""),
            driver=vm_pass.annotations.get(names.DRIVER, ""),
        )
        self._operations.start(name, "create", work, vm_pass.desired)
        return Result.done()

    async def _take_outcome(self, vm_pass: ReconcilePass, operation: Operation) -> Result | None:
        self._operations.take(vm_pass.name, operation.kind)
        vm_pass.state.progress = ""
        try:
            operation.result()
        except asyncio.CancelledError:
            return None  # the next step starts it again if needed
        except Exception as error:
            message = str(error) or type(error).__name__
            return await self._failed(vm_pass, message, operation.subject, cause=error)
        if operation.kind == "create":
            assert isinstance(operation.subject, tuple)
            vm_pass.state.create_backoff.reset()
            version = operation.subject[0]
            await vm_pass.write_status(
                reasons.CREATED_NOW, members={"observedTemplateResourceVersion": version}
            )
            if names.RESTORE_FROM in vm_pass.annotations:
                await vm_pass.remove_annotation(names.RESTORE_FROM)
        return None

    async def _failed(
        self,
        vm_pass: ReconcilePass,
        message: str,
        desired: object = None,
        *,
        cause: Exception | None = None,
    ) -> Result:
        retry_s = vm_pass.state.create_backoff.failed(desired or vm_pass.desired)
        failure = cause if isinstance(cause, HostError) else None
        await vm_pass.write_status(reasons.create_failed(message), failure=failure)
        return Result.requeue(retry_s)

    def _starts_discarding(self, vm_pass: ReconcilePass) -> bool:
        """Start the removal of an obsolete instance on disk; return whether there is one."""
        if self._operations.get(vm_pass.name) is not None:
            return False
        directory = self._machines.home.directory(vm_pass.name)
        is_preparing = directory.is_incomplete()
        if reasons.is_created(vm_pass.vm):
            if is_preparing:
                remove(directory.preparing)
            return False
        if not directory.exists():
            return False
        is_orphaned = not vm_pass.vm.status.template_config_map
        if not (is_preparing or is_orphaned or names.RESET_REQUESTED in vm_pass.annotations):
            return False
        if vm_pass.state.create_backoff.remaining_s(vm_pass.desired):
            return False
        work = self._machines.delete(
            vm_pass.name,
            grace_s=0,
            keep_logs_in=None,
            use_trash=names.SKIP_TRASH not in vm_pass.annotations,
        )
        self._operations.start(vm_pass.name, "discard", work, vm_pass.desired)
        return True

    def _is_missing(self, vm_pass: ReconcilePass) -> bool:
        if self._machines.home.directory(vm_pass.name).exists():
            return False
        phase = self._machines.phase(vm_pass.name).phase
        return (
            phase in (Phase.UNKNOWN, Phase.STOPPED) and self._operations.get(vm_pass.name) is None
        )

    async def _report_progress(self, vm_pass: ReconcilePass) -> None:
        if vm_pass.state.progress and not reasons.is_created(vm_pass.vm):
            await vm_pass.write_status(reasons.progress(vm_pass.state.progress))
