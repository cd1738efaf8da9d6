# SPDX-License-Identifier: Apache-2.0
"""Starts and stops machines, from `spec.running`, the phase of the machine and requests.

| phase | desired | action |
|---|---|---|
| unknown | running | inspect the processes: adopt a machine that is alive, otherwise start it |
| unknown | stopped | stop a machine that is alive |
| starting, running | running | report it; the first pass over a running machine counts a start |
| starting, running | stopped | stop it |
| stopping | any | wait |
| stopped | running | it ended unexpectedly: adopt it if only the agent did, otherwise retry |
| stopped | stopped | report it |

A machine that is adopted and ran before is not reported as starting: its users keep working.
A hold comes first, then a pending restart or reset. A machine that does not come up, or does not
stay up, is retried with exponential backoff; the condition has the reason and the last lines of
its log. One that ran for a while is retried at once.
"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Literal

from rdd.api import names
from rdd.api.quantity import Quantity
from rdd.controllers.lima.limavm import reasons
from rdd.controllers.lima.limavm.machines_interface import GRACE_S, STABLE_S, VmEnvironment
from rdd.controllers.lima.limavm.operations import Operations
from rdd.controllers.lima.limavm.reconcile_pass import ReconcilePass
from rdd.controllers.lima.limavm.start_check import StartCheck
from rdd.controllers.lima.limavm.templates import is_only_larger, wanted_text
from rdd.host.errors import FailureReason, HostError
from rdd.runtime import Condition, Context, Result
from rdd.vm.errors import StartFailed
from rdd.vm.idle.settings import IdleSettings
from rdd.vm.instance_dir import InstanceStatus
from rdd.vm.lifecycle.observation import Observation, Phase
from rdd.vm.problem import ADDRESS_IN_USE, AGENT_HUNG, ENGINE_HUNG, GUEST_HUNG
from rdd.vm.template import TemplateError, parse

_UP = (Phase.STARTING, Phase.RUNNING)
_OPTIONAL = {reasons.DEGRADED, *reasons.OF_RUNNING}
_AGENT_STOPPED = "the host agent does not respond: its process is stopped"
_NOT_ALLOWED_RETRY_S = 30.0
_ALIVE = (InstanceStatus.RUNNING, InstanceStatus.BROKEN)


class PowerControl:
    """Starts, stops and restarts existing machines."""

    def __init__(
        self,
        context: Context,
        machines: VmEnvironment,
        operations: Operations,
        start_check: StartCheck | None = None,
    ) -> None:
        self._start_check = start_check
        self._clock = context.clock
        self._machines = machines
        self._operations = operations

    async def step(self, vm_pass: ReconcilePass) -> Result:
        """Execute the next step."""
        if names.RESTART_REQUESTED in vm_pass.annotations:
            vm_pass.state.start_backoff.reset()
            if not vm_pass.vm.status.restart_needed:
                await vm_pass.write_status(members={"restartNeeded": True})
            await vm_pass.remove_annotation(names.RESTART_REQUESTED)
        operation = self._operations.get(vm_pass.name)
        if operation is not None:
            if not operation.is_done:
                return Result.done()
            if (result := await self._take_outcome(vm_pass)) is not None:
                return result
        holder = vm_pass.annotations.get(names.HOLD, "")
        if not holder:
            if vm_pass.vm.status.held_by:
                await vm_pass.write_status(members={"heldBy": None})
            await self._apply_template(vm_pass)
            await self._apply_idle(vm_pass)
        seen = self._machines.phase(vm_pass.name)
        if seen.phase is Phase.STOPPING:
            return self._wait_for_stop(vm_pass, seen)
        if vm_pass.state.stop_reason and self._machines.inspect(vm_pass.name) in _ALIVE:
            return await self._stop_failed(vm_pass, seen)
        if holder:
            return await self._hold(vm_pass, holder)
        if names.RESET_REQUESTED in vm_pass.annotations:
            return await self._reset(vm_pass)
        if not vm_pass.vm.spec.running:
            return await self._halt(vm_pass)
        if vm_pass.vm.status.restart_needed and seen.phase is not Phase.STARTING:
            return await self._restart(vm_pass, seen)
        return await self._run(vm_pass, seen)

    # -- the template

    async def _apply_template(self, vm_pass: ReconcilePass) -> None:
        """Write a changed template to disk; a machine that is up needs a restart."""
        was_needed = vm_pass.vm.status.restart_needed
        try:
            text = wanted_text(vm_pass.vm, vm_pass.copy)
            present = self._machines.template_text(vm_pass.name)
            if not _is_same(present, text, vm_pass.vm.spec.params):
                if not was_needed and self._is_up(vm_pass.name):
                    # Before the file is written: a crash in between must not lose the restart.
                    await vm_pass.write_status(members={"restartNeeded": True})
                self._machines.write_template(vm_pass.name, text)
                if not was_needed and vm_pass.vm.status.restart_needed:
                    await self._apply_live(vm_pass, present, text)
        except (TemplateError, HostError) as error:
            vm_pass.problem = f"the template is not applied: {error}"
            vm_pass.status.warn(vm_pass.vm, "TemplateNotApplied", str(error))
            if vm_pass.vm.status.restart_needed and not was_needed:
                await vm_pass.write_status(members={"restartNeeded": None})
            return
        status, version = vm_pass.vm.status, vm_pass.desired[0]
        if not status.restart_needed and status.observed_template_resource_version != version:
            await vm_pass.write_status(members={"observedTemplateResourceVersion": version})

    async def _apply_live(self, vm_pass: ReconcilePass, present: str | None, text: str) -> None:
        """Apply a template that only has a larger disk; a machine without that ability restarts."""
        if not is_only_larger(present, text):
            return
        try:
            await self._machines.grow(vm_pass.name)
        except HostError as error:
            vm_pass.status.warn(vm_pass.vm, "RestartForDisk", f"the machine restarts: {error}")
            return
        await vm_pass.write_status(members={"restartNeeded": None})

    async def _apply_idle(self, vm_pass: ReconcilePass) -> None:
        """Pass the settings of idle detection to the host agent; no restart is needed."""
        idle = vm_pass.vm.spec.idle
        settings = IdleSettings(
            action=idle.action,
            after_s=idle.after_seconds,
            cpu_percent=idle.cpu_percent,
            network_bytes_per_s=idle.network_bytes_per_second,
        )
        try:
            vm_pass.idle_problem = await self._machines.set_idle(vm_pass.name, settings)
        except HostError as error:
            vm_pass.problem = vm_pass.problem or f"idle detection is not changed: {error}"

    def _is_up(self, name: str) -> bool:
        return self._machines.phase(name).phase in _UP or self._machines.inspect(name) in _ALIVE

    # -- restart and reset

    async def _restart(self, vm_pass: ReconcilePass, seen: Observation) -> Result:
        if self._is_up(vm_pass.name):
            if problem := await self._start_problem(vm_pass):
                # What runs is not destroyed because it could not start again.
                vm_pass.problem = f"the restart waits: {problem}"
                await self._run(vm_pass, seen)
                return Result.requeue(_NOT_ALLOWED_RETRY_S)
            return self._stop(vm_pass, "restart")
        vm_pass.state.start_backoff.reset()
        await vm_pass.write_status(
            reasons.STOPPED_FOR_RESTART, remove={reasons.DEGRADED}, members={"restartNeeded": None}
        )
        await self._apply_template(vm_pass)
        return await self._start(vm_pass)

    async def _reset(self, vm_pass: ReconcilePass) -> Result:
        if self._is_up(vm_pass.name):
            return self._stop(vm_pass, "reset")
        vm_pass.state.reset_run()
        vm_pass.state.start_backoff.reset()
        # From here on the creation derives its progress by itself.
        await vm_pass.write_status(
            reasons.PENDING,
            reasons.STOPPED_FOR_RESET,
            remove={reasons.DEGRADED},
            members={"restartNeeded": None, "observedTemplateResourceVersion": None},
        )
        return Result.requeue(0)

    async def _hold(self, vm_pass: ReconcilePass, holder: str) -> Result:
        """Keep a machine stopped, whatever is desired, and report it once nothing runs."""
        if self._is_up(vm_pass.name):
            return self._stop(vm_pass, "hold")
        vm_pass.state.reset_run()
        vm_pass.state.start_backoff.reset()
        vm_pass.state.stop_backoff.reset()
        await vm_pass.write_status(
            reasons.held(holder), remove={reasons.DEGRADED}, members={"heldBy": holder}
        )
        return Result.done()

    # -- desired: running

    async def _run(self, vm_pass: ReconcilePass, seen: Observation) -> Result:
        state = vm_pass.state
        match seen.phase:
            case Phase.STARTING:
                if not state.is_adopted:
                    await vm_pass.write_status(reasons.STARTING, observes=True)
            case Phase.RUNNING:
                state.stop_reason = ""
                state.is_adopted = False
                if state.running_since is None:
                    state.running_since = self._clock()
                problems = [
                    _AGENT_STOPPED if seen.is_agent_stopped else "",
                    *(seen.errors if seen.degraded else ()),
                    vm_pass.problem,
                ]
                conditions: list[Condition] = []
                if seen.degraded or any(problems):
                    errors = list(filter(None, problems))
                    conditions = [reasons.degraded(errors, _degraded_reason(seen))]
                paused = reasons.paused(seen.idle, vm_pass.idle_problem)
                if paused is not None:
                    conditions.append(paused)
                if seen.clock is not None:
                    conditions.append(reasons.clock(seen.clock))
                if seen.memory is not None:
                    conditions.append(reasons.memory(seen.memory))
                conditions += reasons.disk(seen.disk)
                await vm_pass.write_status(
                    reasons.STARTED,
                    *conditions,
                    remove=_OPTIONAL - {condition.type for condition in conditions},
                    observes=True,
                    counts_start=True,
                    members={
                        "unavailablePorts": _unavailable_ports(seen),
                        "resourceLimits": _resource_limits(seen),
                        "guestMemory": _guest_memory(seen),
                    },
                )
                if seen.idle is not None and seen.idle.wants_stop:
                    await vm_pass.stop_idle()
            case Phase.STOPPED if seen.crashed:
                return await self._ended(vm_pass, seen)
            case Phase.STOPPED:
                if retry_s := state.start_backoff.remaining_s(vm_pass.desired):
                    return Result.requeue(retry_s)
                return await self._start(vm_pass)
            case _:
                return await self._inspect(vm_pass)
        return Result.done()

    async def _inspect(self, vm_pass: ReconcilePass) -> Result:
        """Determine the state of a machine that this process does not manage yet."""
        if retry_s := vm_pass.state.start_backoff.remaining_s(vm_pass.desired):
            return Result.requeue(retry_s)
        if self._machines.inspect(vm_pass.name) in _ALIVE:
            return await self._adopt(vm_pass, reasons.RECONCILING)
        await vm_pass.write_status(reasons.RECONCILING, remove={reasons.DEGRADED})
        return await self._start(vm_pass)

    async def _ended(self, vm_pass: ReconcilePass, seen: Observation) -> Result:
        """Handle a machine, or its agent, that ended unexpectedly."""
        state = vm_pass.state
        if not state.has_counted_end:
            state.has_counted_end = True
            ran_since, state.running_since = state.running_since, None
            if ran_since is not None and self._clock() - ran_since >= STABLE_S:
                state.start_backoff.reset()
            retry_s = state.start_backoff.failed(
                vm_pass.desired, first_s=1.0 if ran_since is None else 0.0
            )
            if retry_s:
                message = _failure(
                    seen.reason or "the host agent has ended",
                    seen.log_tail,
                    attempt=state.start_backoff.failures,
                    retry_s=retry_s,
                )
                await vm_pass.write_status(
                    reasons.start_failed(message),
                    remove={reasons.DEGRADED},
                    observes=True,
                    failure=_cause(seen),
                )
        if retry_s := state.start_backoff.remaining_s(vm_pass.desired):
            return Result.requeue(retry_s)
        if self._machines.inspect(vm_pass.name) in _ALIVE:
            return await self._adopt(vm_pass, reasons.ADOPTING)
        return await self._start(vm_pass)

    async def _adopt(self, vm_pass: ReconcilePass, condition: Condition) -> Result:
        """Adopt a machine; one that ran before is not reported as starting."""
        was_running = reasons.status_of(vm_pass.vm, reasons.RUNNING) != "False"
        await vm_pass.write_status(condition, remove={reasons.DEGRADED})
        result = self._start_operation(vm_pass, "adopt", self._machines.adopt(vm_pass.name))
        vm_pass.state.is_adopted = was_running
        return result

    async def _start(self, vm_pass: ReconcilePass) -> Result:
        if problem := await self._start_problem(vm_pass):
            await vm_pass.write_status(
                reasons.start_failed(problem),
                remove={reasons.DEGRADED},
                observes=True,
                failure=HostError(problem, reason=FailureReason.NOT_ALLOWED),
            )
            return Result.requeue(_NOT_ALLOWED_RETRY_S)
        await vm_pass.write_status(reasons.STARTING, remove={reasons.DEGRADED})
        return self._start_operation(vm_pass, "start", self._machines.start(vm_pass.name))

    async def _start_problem(self, vm_pass: ReconcilePass) -> str:
        if self._start_check is None:
            return ""
        text = self._machines.template_text(vm_pass.name)
        return await self._start_check.problem(vm_pass.vm, text)

    def _start_operation(
        self,
        vm_pass: ReconcilePass,
        kind: Literal["start", "adopt"],
        work: Coroutine[Any, Any, Any],
    ) -> Result:
        vm_pass.state.reset_run()
        self._operations.start(vm_pass.name, kind, work, vm_pass.desired)
        return Result.done()

    async def _take_outcome(self, vm_pass: ReconcilePass) -> Result | None:
        """Process the outcome of a start or an adoption; None to continue."""
        name = vm_pass.name
        operation = self._operations.take(name, "start") or self._operations.take(name, "adopt")
        assert operation is not None
        try:
            outcome = operation.result()
        except asyncio.CancelledError:
            return None
        except Exception as error:
            if not vm_pass.vm.spec.running:
                return None
            vm_pass.state.has_counted_end = True
            retry_s = vm_pass.state.start_backoff.failed(operation.subject)
            message = _failure(
                str(error) or type(error).__name__,
                error.log_tail if isinstance(error, StartFailed) else (),
                attempt=vm_pass.state.start_backoff.failures,
                retry_s=retry_s,
            )
            await vm_pass.write_status(
                reasons.start_failed(message),
                remove={reasons.DEGRADED},
                observes=True,
                failure=error if isinstance(error, HostError) else None,
            )
            return Result.requeue(retry_s)
        if operation.kind == "adopt" and not outcome and self._machines.inspect(name) in _ALIVE:
            # Its agent does not respond, or is another program.
            return self._stop(vm_pass, "restart")
        return None

    # -- desired: stopped

    async def _halt(self, vm_pass: ReconcilePass) -> Result:
        state = vm_pass.state
        state.start_backoff.reset()
        if self._is_up(vm_pass.name):
            return self._stop(vm_pass, "stop")
        was_stopped = bool(state.stop_reason)
        state.reset_run()
        state.stop_backoff.reset()
        is_reported = (
            reasons.reason_of(vm_pass.vm, reasons.RUNNING) == "Stopped" and not was_stopped
        )
        condition = reasons.STOPPED_NOW if was_stopped else reasons.IS_STOPPED
        needed = vm_pass.vm.status.restart_needed
        await vm_pass.write_status(
            *(() if is_reported else (condition,)),
            remove={reasons.DEGRADED},
            observes=True,
            members={"restartNeeded": None},
        )
        if needed:
            await self._apply_template(vm_pass)
        return Result.done()

    def _stop(
        self, vm_pass: ReconcilePass, reason: Literal["stop", "restart", "reset", "hold"]
    ) -> Result:
        if retry_s := vm_pass.state.stop_backoff.remaining_s():
            return Result.requeue(retry_s)
        vm_pass.state.stop_reason = reason
        vm_pass.state.running_since = None
        if reason == "stop" and vm_pass.annotations.get(names.STOP_MODE) == "suspend":
            self._machines.stop(vm_pass.name, grace_s=GRACE_S, suspend=True)
        else:
            self._machines.stop(vm_pass.name, grace_s=GRACE_S)
        return Result.done()

    def _wait_for_stop(self, vm_pass: ReconcilePass, seen: Observation) -> Result:
        """Wait; a machine that stops by itself gets a grace period only if it should stop."""
        is_unwanted = not vm_pass.vm.spec.running or vm_pass.vm.status.restart_needed
        if is_unwanted and not seen.is_stop_requested:
            return self._stop(vm_pass, "stop")
        return Result.done()

    async def _stop_failed(self, vm_pass: ReconcilePass, seen: Observation) -> Result:
        """Report a machine that is still alive after a stop, and retry."""
        vm_pass.state.stop_reason = ""
        retry_s = vm_pass.state.stop_backoff.failed()
        message = seen.stop_error or "the instance still runs after it was stopped by force"
        await vm_pass.write_status(reasons.stop_failed(message), observes=True)
        return Result.requeue(retry_s)


def _degraded_reason(seen: Observation) -> str:
    """Return the most important reason: an agent that hangs reports none of the others."""
    found = {problem.reason for problem in seen.problems if seen.degraded}
    if seen.is_agent_stopped:
        return AGENT_HUNG
    hung = (reason for reason in (AGENT_HUNG, GUEST_HUNG, ENGINE_HUNG) if reason in found)
    return next(hung, "Degraded")


def _resource_limits(seen: Observation) -> dict[str, Any] | None:
    """Return the enforced limits in the form of the status; None for a virtual machine."""
    if seen.limits is None:
        return None
    memory = seen.limits.memory_bytes
    members = {
        "mode": seen.limits.mode,
        "cpus": seen.limits.cpus,
        "memory": str(Quantity.of(memory, format="BinarySI")) if memory else "",
        "message": seen.limits.message,
    }
    return {name: value for name, value in members.items() if value}


def _guest_memory(seen: Observation) -> dict[str, Any] | None:
    """Return the memory of a guest in the form of the status; None without a guest."""
    if seen.memory is None:
        return None
    used, host = seen.memory.used_bytes, seen.memory.host_bytes
    members = {"used": _mebibytes(used) if used else "", "host": _mebibytes(host)}
    return {name: value for name, value in members.items() if value}


def _mebibytes(count: int) -> str:
    return f"{count >> 20}Mi"


def _cause(seen: Observation) -> HostError | None:
    """Return the failure of an agent that only the user can help; None if there is none."""
    for problem in seen.problems:
        if problem.reason in set(FailureReason):
            reason = FailureReason(problem.reason)
            return HostError(problem.message, reason=reason, remedy=problem.remedy)
    return None


def _unavailable_ports(seen: Observation) -> list[int] | None:
    """Return the host ports that another program uses; None if there are none."""
    ports = {found.host_port for found in seen.problems if found.reason == ADDRESS_IN_USE}
    return sorted(ports - {0}) or None


def _is_same(present: str | None, wanted: str, params: Mapping[str, str]) -> bool:
    """Return whether the template on disk is the wanted one.

    Without params the text is compared. With params rdd renders the text, and another
    release may render it differently: then the parsed templates are compared.
    """
    if present == wanted or present is None or not params:
        return present == wanted
    try:
        return parse(present) == parse(wanted)
    except TemplateError:
        return False


def _failure(problem: str, log_tail: Sequence[str], *, attempt: int, retry_s: float) -> str:
    """Return a message with the problem, the attempt, the delay and the last log lines."""
    return "\n".join([f"{problem} (attempt {attempt}, next in {retry_s:g} s)", *log_tail])
