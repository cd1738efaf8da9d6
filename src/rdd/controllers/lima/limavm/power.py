# SPDX-License-Identifier: Apache-2.0
"""Running or not: from `spec.running`, the phase of the machine, and what was asked for besides.

| phase | wanted | what is done |
|---|---|---|
| unknown | running | look at the processes: taken over if something lives, else started |
| unknown | stopped | what lives is stopped |
| starting, running | running | said so; the first look at a running one counts a start |
| starting, running | stopped | stopped |
| stopping | any | waited for |
| stopped | running | it ended by itself: taken over if only the agent did, else tried again |
| stopped | stopped | said so |

One that is taken over and ran before is not said to be starting: whoever uses it goes on.
A restart or a reset that is due comes first. A machine that does not come up, or does not
stay up, is tried again after pauses that double, with the reason and the last lines of its
log in the condition; one that ran for a while is tried again at once.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal

from rdd.api import names
from rdd.controllers.lima.limavm import report
from rdd.controllers.lima.limavm.environment import GRACE_S, STABLE_S, MachineRoom
from rdd.controllers.lima.limavm.operations import Activities
from rdd.controllers.lima.limavm.reconcile_pass import Look
from rdd.controllers.lima.limavm.templates import wanted_text
from rdd.host.errors import HostError
from rdd.runtime import Context, Result
from rdd.vm.errors import StartFailed
from rdd.vm.instance_dir import InstanceStatus
from rdd.vm.lifecycle.observation import Observation, Phase
from rdd.vm.problem import ADDRESS_IN_USE
from rdd.vm.template import TemplateError, parse

_UP = (Phase.STARTING, Phase.RUNNING)
_ALIVE = (InstanceStatus.RUNNING, InstanceStatus.BROKEN)


class Power:
    """Starts, stops and restarts machines that exist."""

    def __init__(self, context: Context, machines: MachineRoom, activities: Activities) -> None:
        self._clock = context.clock
        self._machines = machines
        self._activities = activities

    async def step(self, look: Look) -> Result:
        """Do what is next."""
        if names.RESTART_REQUESTED in look.annotations:
            look.memory.starting.reset()
            if not look.vm.status.restart_needed:
                await look.say(members={"restartNeeded": True})
            await look.drop_annotation(names.RESTART_REQUESTED)
        activity = self._activities.get(look.name)
        if activity is not None:
            if not activity.is_done:
                return Result.done()
            if (result := await self._take_outcome(look)) is not None:
                return result
        await self._bring_template(look)
        seen = self._machines.phase(look.name)
        if seen.phase is Phase.STOPPING:
            return self._wait_for_stop(look, seen)
        if look.memory.stops_for and self._machines.inspect(look.name) in _ALIVE:
            return await self._stop_failed(look, seen)
        if names.RESET_REQUESTED in look.annotations:
            return await self._reset(look)
        if not look.vm.spec.running:
            return await self._halt(look)
        if look.vm.status.restart_needed and seen.phase is not Phase.STARTING:
            return await self._restart(look)
        return await self._run(look, seen)

    # -- the template

    async def _bring_template(self, look: Look) -> None:
        """Write the template to disk if it is another one; a machine that is up needs a restart."""
        was_needed = look.vm.status.restart_needed
        try:
            text = wanted_text(look.vm, look.copy)
            present = self._machines.template_text(look.name)
            if not _is_same(present, text, look.vm.spec.params):
                if not was_needed and self._is_up(look.name):
                    # Before the file: a crash in between must not lose the restart.
                    await look.say(members={"restartNeeded": True})
                self._machines.write_template(look.name, text)
        except (TemplateError, HostError) as error:
            look.problem = f"the template is not applied: {error}"
            look.reporter.warn(look.vm, "TemplateNotApplied", str(error))
            if look.vm.status.restart_needed and not was_needed:
                await look.say(members={"restartNeeded": None})
            return
        status, version = look.vm.status, look.wanted[0]
        if not status.restart_needed and status.observed_template_resource_version != version:
            await look.say(members={"observedTemplateResourceVersion": version})

    def _is_up(self, name: str) -> bool:
        return self._machines.phase(name).phase in _UP or self._machines.inspect(name) in _ALIVE

    # -- restart and reset

    async def _restart(self, look: Look) -> Result:
        if self._is_up(look.name):
            return self._stop(look, "restart")
        look.memory.starting.reset()
        await look.say(
            report.STOPPED_FOR_RESTART, without=report.DEGRADED, members={"restartNeeded": None}
        )
        await self._bring_template(look)
        return await self._start(look)

    async def _reset(self, look: Look) -> Result:
        if self._is_up(look.name):
            return self._stop(look, "reset")
        look.memory.forget_run()
        look.memory.starting.reset()
        # From here on the creation finds out by itself how far it is.
        await look.say(
            report.PENDING,
            report.STOPPED_FOR_RESET,
            without=report.DEGRADED,
            members={"restartNeeded": None, "observedTemplateResourceVersion": None},
        )
        return Result.requeue(0)

    # -- wanted: running

    async def _run(self, look: Look, seen: Observation) -> Result:
        memory = look.memory
        match seen.phase:
            case Phase.STARTING:
                if not memory.is_taken_over:
                    await look.say(report.STARTING, observes=True)
            case Phase.RUNNING:
                memory.stops_for = ""
                memory.is_taken_over = False
                if memory.ran_since is None:
                    memory.ran_since = self._clock()
                problems = [*(seen.errors if seen.degraded else ()), look.problem]
                is_degraded = seen.degraded or look.problem
                says = [report.degraded(list(filter(None, problems)))] if is_degraded else []
                await look.say(
                    report.STARTED,
                    *says,
                    without="" if says else report.DEGRADED,
                    observes=True,
                    counts_start=True,
                    members={"unavailablePorts": _unavailable_ports(seen)},
                )
            case Phase.STOPPED if seen.crashed:
                return await self._ended(look, seen)
            case Phase.STOPPED:
                if wait_s := memory.starting.left_s(look.wanted):
                    return Result.requeue(wait_s)
                return await self._start(look)
            case _:
                return await self._find_out(look)
        return Result.done()

    async def _find_out(self, look: Look) -> Result:
        """Nobody here has looked after the machine so far."""
        if wait_s := look.memory.starting.left_s(look.wanted):
            return Result.requeue(wait_s)
        if self._machines.inspect(look.name) in _ALIVE:
            return await self._take_over(look, report.RECONCILING)
        await look.say(report.RECONCILING, without=report.DEGRADED)
        return await self._start(look)

    async def _ended(self, look: Look, seen: Observation) -> Result:
        """The machine, or its agent, has ended without being asked to."""
        memory = look.memory
        if not memory.has_counted_end:
            memory.has_counted_end = True
            ran_since, memory.ran_since = memory.ran_since, None
            if ran_since is not None and self._clock() - ran_since >= STABLE_S:
                memory.starting.reset()
            wait_s = memory.starting.failed(look.wanted, first_s=1.0 if ran_since is None else 0.0)
            if wait_s:
                why = _failure(
                    seen.reason or "the host agent has ended",
                    seen.log_tail,
                    attempt=memory.starting.failures,
                    wait_s=wait_s,
                )
                await look.say(report.start_failed(why), without=report.DEGRADED, observes=True)
        if wait_s := memory.starting.left_s(look.wanted):
            return Result.requeue(wait_s)
        if self._machines.inspect(look.name) in _ALIVE:
            return await self._take_over(look, report.TAKING_OVER)
        return await self._start(look)

    async def _take_over(self, look: Look, says: report.Says) -> Result:
        """Who runs containers in it must not be told that it starts, as long as it ran before."""
        ran = not report.is_said_down(look.vm)
        await look.say(says, without=report.DEGRADED)
        result = self._begin(look, "adopt", self._machines.adopt(look.name))
        look.memory.is_taken_over = ran
        return result

    async def _start(self, look: Look) -> Result:
        await look.say(report.STARTING, without=report.DEGRADED)
        return self._begin(look, "start", self._machines.start(look.name))

    def _begin(
        self, look: Look, kind: Literal["start", "adopt"], work: Coroutine[Any, Any, Any]
    ) -> Result:
        look.memory.forget_run()
        self._activities.begin(look.name, kind, work, look.wanted)
        return Result.done()

    async def _take_outcome(self, look: Look) -> Result | None:
        """What came of a start or of taking over; None: go on."""
        name = look.name
        activity = self._activities.take(name, "start") or self._activities.take(name, "adopt")
        assert activity is not None
        try:
            outcome = activity.result()
        except asyncio.CancelledError:
            return None
        except Exception as error:
            if not look.vm.spec.running:
                return None
            look.memory.has_counted_end = True
            wait_s = look.memory.starting.failed(activity.about)
            why = _failure(
                str(error) or type(error).__name__,
                error.log_tail if isinstance(error, StartFailed) else (),
                attempt=look.memory.starting.failures,
                wait_s=wait_s,
            )
            await look.say(report.start_failed(why), without=report.DEGRADED, observes=True)
            return Result.requeue(wait_s)
        if activity.kind == "adopt" and not outcome and self._machines.inspect(name) in _ALIVE:
            # It does not answer, or is not what it says it is.
            return self._stop(look, "restart")
        return None

    # -- wanted: stopped

    async def _halt(self, look: Look) -> Result:
        memory = look.memory
        memory.starting.reset()
        if self._is_up(look.name):
            return self._stop(look, "stop")
        was_stopped = bool(memory.stops_for)
        memory.forget_run()
        memory.stopping.reset()
        is_known = report.reason_of(look.vm, report.RUNNING) == "Stopped" and not was_stopped
        says = report.STOPPED_NOW if was_stopped else report.IS_STOPPED
        needed = look.vm.status.restart_needed
        await look.say(
            *(() if is_known else (says,)),
            without=report.DEGRADED,
            observes=True,
            members={"restartNeeded": None},
        )
        if needed:
            await self._bring_template(look)
        return Result.done()

    def _stop(self, look: Look, why: Literal["stop", "restart", "reset"]) -> Result:
        if wait_s := look.memory.stopping.left_s():
            return Result.requeue(wait_s)
        look.memory.stops_for = why
        look.memory.ran_since = None
        if why == "stop" and look.annotations.get(names.STOP_MODE) == "suspend":
            self._machines.stop(look.name, grace_s=GRACE_S, suspend=True)
        else:
            self._machines.stop(look.name, grace_s=GRACE_S)
        return Result.done()

    def _wait_for_stop(self, look: Look, seen: Observation) -> Result:
        """One that stops by itself has a limit only if that is what is wanted."""
        is_unwanted = not look.vm.spec.running or look.vm.status.restart_needed
        if is_unwanted and not seen.is_stop_requested:
            return self._stop(look, "stop")
        return Result.done()

    async def _stop_failed(self, look: Look, seen: Observation) -> Result:
        """Something still lives although it was stopped: said, and tried again."""
        look.memory.stops_for = ""
        wait_s = look.memory.stopping.failed()
        message = seen.stop_error or "the instance still runs after it was stopped by force"
        await look.say(report.stop_failed(message), observes=True)
        return Result.requeue(wait_s)


def _unavailable_ports(seen: Observation) -> list[int] | None:
    """Return the host ports that another program uses; None if there are none."""
    ports = {found.host_port for found in seen.problems if found.reason == ADDRESS_IN_USE}
    return sorted(ports - {0}) or None


def _is_same(present: str | None, wanted: str, params: Mapping[str, str]) -> bool:
    """Whether a template is what is on disk.

    As it is written, it counts to the byte. With other params it is our own writing, and
    a new release may write the same differently: then the meaning counts.
    """
    if present == wanted or present is None or not params:
        return present == wanted
    try:
        return parse(present) == parse(wanted)
    except TemplateError:
        return False


def _failure(why: str, log_tail: Sequence[str], *, attempt: int, wait_s: float) -> str:
    """A message: why, how often, when it is tried again, and what the log says."""
    return "\n".join([f"{why} (attempt {attempt}, next in {wait_s:g} s)", *log_tail])
