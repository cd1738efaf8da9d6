# SPDX-License-Identifier: Apache-2.0
"""The reconciler of LimaVMs.

A look reads the LimaVM from the server, not from the cache: there are few, and what is decided
here starts and stops processes. Then come the steps, each in a module of its own:

    deletion    it is on its way out
    creation    until there is an instance on disk
    power       from then on

What takes time is an activity beside the worker (see `activities`); its end, like every change
that a host agent tells, is a reason to look again.
"""

import asyncio
import contextlib
import logging
from pathlib import Path

from rdd.api import errors
from rdd.controllers.lima.limavm import report
from rdd.controllers.lima.limavm.creation import Creation
from rdd.controllers.lima.limavm.deletion import Deletion
from rdd.controllers.lima.limavm.environment import GRACE_S, MakeMachines
from rdd.controllers.lima.limavm.operations import Activities
from rdd.controllers.lima.limavm.power import Power
from rdd.controllers.lima.limavm.reconcile_pass import Look, Memory
from rdd.controllers.lima.limavm.report import Reporter, Says
from rdd.controllers.lima.limavm.templates import Copies
from rdd.controllers.lima.limavm.uniqueness import NameHolds, rival_of, taken
from rdd.host.errors import HostError
from rdd.kinds.limavm import LimaVM
from rdd.runtime import Context, ObjectKey, Result, is_deleting, resource_of
from rdd.vm.instance_dir import InstanceStatus, InvalidName, check_name

log = logging.getLogger("rdd.controllers.limavm")

_TROUBLE_S = 5.0

DRAIN_S = 40.0
"""How long all virtual machines together may take to stop when the daemon does."""


class LimaVMReconciler:
    """Makes virtual machines what their LimaVMs say."""

    def __init__(
        self,
        context: Context,
        make_machines: MakeMachines,
        holds: NameHolds,
        graces: dict[str, float],
        *,
        log_dir: Path | None = None,
    ) -> None:
        self._context = context
        self._holds = holds
        self._vms = context.cache.of(LimaVM)
        self._memories: dict[str, Memory] = {}
        self._keys: dict[str, ObjectKey] = {}
        machines = self._machines = make_machines(self._look_again)
        self._activities = Activities(self._look_again)
        self._reporter = Reporter(context)
        self._copies = Copies(context.client)
        self._creation = Creation(context, machines, self._activities, self._copies)
        self._power = Power(context, machines, self._activities)
        self._deletion = Deletion(context, machines, self._activities, graces, log_dir=log_dir)

    async def begin(self) -> None:
        """What ran under another process may have ended with it: that is found out first."""
        for vm in self._vms.list():
            if (report.condition_of(vm, report.RUNNING) or {}).get("status") == "True":
                with contextlib.suppress(errors.NotFound):
                    await self._reporter.write(vm, report.RECONCILING, without=report.DEGRADED)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do the next steps for a LimaVM."""
        try:
            raw = await self._context.client.get(
                resource_of(LimaVM), key.name, namespace=key.namespace
            )
        except errors.NotFound:
            await self._forget(key)
            return Result.done()
        self._holds.appeared(key.name)
        vm = LimaVM.of(raw)
        memory = self._memories.setdefault(key.name, Memory(self._context.clock))
        look = Look(vm, memory, self._reporter, self._context.client)
        try:
            return await self._steps(look)
        except errors.NotFound:
            return Result.requeue(0)  # it went while we looked
        except HostError as error:
            # A disk that cannot be read, for example: whatever step it was, it is said.
            await look.say(_trouble(look.vm, str(error)))
            return Result.requeue(_TROUBLE_S)

    async def _steps(self, look: Look) -> Result:
        if why := self._obstacle(look):
            if is_deleting(look.vm.raw):
                return await self._deletion.finish(look)
            await look.say(report.create_failed(why))
            return Result.done()
        self._keys[look.name] = look.key
        if is_deleting(look.vm.raw):
            return await self._deletion.step(look)
        result = await self._creation.step(look)
        return result if result is not None else await self._power.step(look)

    def _obstacle(self, look: Look) -> str:
        """Why a LimaVM can have no instance; admission has missed it."""
        rival = rival_of(look.vm, self._vms.list())
        if rival is not None:
            return taken(look.name, rival.raw["metadata"]["namespace"])
        try:
            check_name(look.name)
        except InvalidName as error:
            return str(error)
        return ""

    async def drain(self) -> None:
        """Stop all virtual machines, at the same time, and say so."""
        await self._activities.cancel_all()
        await self._machines.drain(budget_s=DRAIN_S)
        await asyncio.gather(*(self._say_stopped(key) for key in self._keys.values()))

    async def run(self) -> None:
        """Sweep up after a crash; what runs beside the worker ends with this."""
        try:
            await self._machines.sweep()
            await asyncio.get_running_loop().create_future()
        finally:
            await self._activities.cancel_all()
            await self._machines.close()

    async def _say_stopped(self, key: ObjectKey) -> None:
        try:
            raw = await self._context.client.get(
                resource_of(LimaVM), key.name, namespace=key.namespace
            )
            vm = LimaVM.of(raw)
            running = report.reason_of(vm, report.RUNNING)
            if (
                running in ("", "Stopped")
                or self._machines.inspect(key.name) is InstanceStatus.RUNNING
            ):
                return
            await self._reporter.write(vm, report.STOPPED_NOW, without=report.DEGRADED)
        except (errors.ApiError, HostError) as error:
            log.warning("limavm: %s: not said that it is stopped: %s", key, error)

    async def _forget(self, key: ObjectKey) -> None:
        if self._keys.get(key.name) == key:
            await self._activities.cancel(key.name)
            if self._machines.inspect(key.name) in (InstanceStatus.RUNNING, InstanceStatus.BROKEN):
                # Somebody has removed the finalizer. The disk is left; whoever creates a
                # LimaVM of this name gets a new one.
                self._machines.stop(key.name, grace_s=GRACE_S)
            del self._keys[key.name]
            self._memories.pop(key.name, None)
        await self._copies.release(key)
        for vm in self._vms.list():
            # A LimaVM of the same name may have been waiting for this.
            if vm.raw["metadata"]["name"] == key.name:
                self._context.enqueue(ObjectKey.of(vm.raw))

    def _look_again(self, name: str) -> None:
        key = self._keys.get(name)
        if key is not None:
            self._context.enqueue(key)


def _trouble(vm: LimaVM, why: str) -> Says:
    if not report.is_created(vm):
        return report.create_failed(why)
    if (report.condition_of(vm, report.RUNNING) or {}).get("status") == "True":
        return report.degraded([why])
    return report.start_failed(why) if vm.spec.running else report.stop_failed(why)
