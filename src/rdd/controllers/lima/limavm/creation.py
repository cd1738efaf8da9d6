# SPDX-License-Identifier: Apache-2.0
"""From a LimaVM to an instance on disk.

The order of the steps makes every crash harmless: what is found on the next look says how
far it came. `.preparing` on disk means that a creation did not complete, an instance without
a recorded template that a deletion did not; both are removed and the creation begins again.
"""

import asyncio

from rdd.api import errors, names
from rdd.controllers.lima.limavm import report
from rdd.controllers.lima.limavm.environment import MachineRoom
from rdd.controllers.lima.limavm.operations import Activities, Activity
from rdd.controllers.lima.limavm.reconcile_pass import Look
from rdd.controllers.lima.limavm.templates import Copies, copy_name, wanted_text
from rdd.host.files import remove
from rdd.runtime import Context, Result
from rdd.vm.lifecycle.observation import Phase
from rdd.vm.template import TemplateError

_AGAIN_S = 1.0


class Creation:
    """Brings instances into being, and starts over when asked to."""

    def __init__(
        self, context: Context, machines: MachineRoom, activities: Activities, copies: Copies
    ) -> None:
        self._context = context
        self._machines = machines
        self._activities = activities
        self._copies = copies

    async def step(self, look: Look) -> Result | None:
        """Do what is next; None when the instance is there, and its template in `look.copy`."""
        if report.condition_of(look.vm, report.CREATED) is None:
            await look.say(report.PENDING)
        activity = self._activities.get(look.name)
        if activity is not None and activity.kind in ("create", "discard"):
            if not activity.is_done:
                await self._tell_progress(look)
                return Result.done()
            if (result := await self._take_outcome(look, activity)) is not None:
                return result
        if self._begins_discarding(look):
            return Result.done()
        if names.RESET_REQUESTED in look.annotations and not report.is_created(look.vm):
            await look.drop_annotation(names.RESET_REQUESTED)  # what was there is gone
        if (result := await self._provide_template(look)) is not None:
            return result
        if report.is_created(look.vm):
            if not self._is_missing(look):
                return None
            look.reporter.warn(
                look.vm, "InstanceMissing", "The instance directory is gone; it is made anew"
            )
            await look.say(report.PENDING, members={"observedTemplateResourceVersion": None})
        return await self._create(look)

    async def _provide_template(self, look: Look) -> Result | None:
        has_copy = bool(look.vm.status.template_config_map)
        try:
            on_disk = self._machines.template_text(look.name) if has_copy else None
            copy = await self._copies.ensure(look.vm, on_disk=on_disk)
        except (errors.NotFound, errors.AlreadyExists) as error:
            return await self._failed(look, error.message)
        if copy is None:
            return Result.requeue(_AGAIN_S)
        look.copy = copy
        if not has_copy:
            await look.say(members={"templateConfigMap": copy_name(look.name)})
        if names.TEMPLATE in look.annotations:
            await look.drop_annotation(names.TEMPLATE)
        return None

    async def _create(self, look: Look) -> Result | None:
        version, name = look.wanted[0], look.name
        if self._machines.home.directory(name).exists():
            await look.say(report.EXISTS, members={"observedTemplateResourceVersion": version})
            return None
        if wait_s := look.memory.creating.left_s(look.wanted):
            return Result.requeue(wait_s)
        try:
            text = wanted_text(look.vm, look.copy)
        except TemplateError as error:
            return await self._failed(look, str(error))
        memory, key = look.memory, look.key

        def progress(message: str) -> None:
            memory.progress = message
            self._context.enqueue(key)

        work = self._machines.create(
            name,
            text,
            progress=progress,
            clone_of=look.annotations.get(names.CLONE_OF, ""),
            driver=look.annotations.get(names.DRIVER, ""),
        )
        self._activities.begin(name, "create", work, look.wanted)
        return Result.done()

    async def _take_outcome(self, look: Look, activity: Activity) -> Result | None:
        self._activities.take(look.name, activity.kind)
        look.memory.progress = ""
        try:
            activity.result()
        except asyncio.CancelledError:
            return None  # it begins again if it is still wanted
        except Exception as error:
            return await self._failed(look, str(error) or type(error).__name__, activity.about)
        if activity.kind == "create":
            assert isinstance(activity.about, tuple)
            look.memory.creating.reset()
            version = activity.about[0]
            await look.say(report.CREATED_NOW, members={"observedTemplateResourceVersion": version})
        return None

    async def _failed(self, look: Look, why: str, wanted: object = None) -> Result:
        wait_s = look.memory.creating.failed(wanted or look.wanted)
        await look.say(report.create_failed(why))
        return Result.requeue(wait_s)

    def _begins_discarding(self, look: Look) -> bool:
        """Whether something is on disk that must go first; its removal has begun then."""
        if self._activities.get(look.name) is not None:
            return False
        directory = self._machines.home.directory(look.name)
        is_preparing = directory.is_incomplete()
        if report.is_created(look.vm):
            if is_preparing:
                remove(directory.preparing)
            return False
        if not directory.exists():
            return False
        is_leftover = not look.vm.status.template_config_map
        if not (is_preparing or is_leftover or names.RESET_REQUESTED in look.annotations):
            return False
        if look.memory.creating.left_s(look.wanted):
            return False
        work = self._machines.delete(look.name, grace_s=0, keep_logs_in=None)
        self._activities.begin(look.name, "discard", work, look.wanted)
        return True

    def _is_missing(self, look: Look) -> bool:
        if self._machines.home.directory(look.name).exists():
            return False
        phase = self._machines.phase(look.name).phase
        return phase in (Phase.UNKNOWN, Phase.STOPPED) and self._activities.get(look.name) is None

    async def _tell_progress(self, look: Look) -> None:
        if look.memory.progress and not report.is_created(look.vm):
            await look.say(report.progress(look.memory.progress))
