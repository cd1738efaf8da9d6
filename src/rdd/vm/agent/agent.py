# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of a host agent: boot or adopt the driver, wait, forward, end.

An agent ends in one of four ways:

    stop request      the machine is shut down (or suspended)
    detach request    the machine runs on, for another agent
    machine ended     by itself
    start failed

The first two are successes. In all cases the agent closes its forwards, writes `exiting` with
the errors as its last event, and removes its pid file and socket.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

from rdd.host.errors import HostError
from rdd.host.processes import own_identity
from rdd.vm.agent import liveness
from rdd.vm.agent.events import AgentLog, EventStream, port_status
from rdd.vm.agent.readiness import wait_for_requirements
from rdd.vm.drivers.protocol import (
    Driver,
    HasLiveness,
    PublishesPorts,
    RequirementPhase,
    Suspendable,
)
from rdd.vm.drivers.storage_protocol import GrowsDisk
from rdd.vm.forwarding.forwarder import Forwarder, PortEvent
from rdd.vm.forwarding.rules import ForwardingRules
from rdd.vm.forwarding.sockets import has_ipv6
from rdd.vm.idle.monitor import IdleMonitor
from rdd.vm.idle.report import PauseRecord
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.problem import Problem
from rdd.vm.template.errors import TemplateError
from rdd.vm.template.model import Template

STOP_GRACE_S = 25.0
"""Timeout of a shutdown; the daemon waits 30 s before it uses force."""
DETACH_S = 5.0


class StopRequest(Enum):
    """How the agent is to end."""

    STOP = auto()
    DETACH = auto()
    SUSPEND = auto()
    """Stop the machine, whose memory has been saved."""


class HostAgent:
    def __init__(
        self,
        driver: Driver,
        template: Template,
        directory: InstanceDirectory,
        *,
        events: EventStream,
        log: AgentLog,
    ) -> None:
        self._driver = driver
        self._directory = directory
        self._events = events
        self._log = log
        rules = ForwardingRules(
            template.port_forwards, ssh_local_port=driver.ssh_local_port, has_ipv6=has_ipv6()
        )
        self._forwarder = Forwarder(rules, driver, report=self._report_forward)
        self._idle = IdleMonitor(
            driver,
            settings_file=directory.idle_settings,
            record_file=directory.paused,
            report=events.idle,
            log=log,
        )
        self._failed: dict[str, Problem] = {}  # static forwards by host address
        self._request: asyncio.Future[StopRequest] = asyncio.get_running_loop().create_future()
        self._detached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def request(self, request: StopRequest) -> None:
        """Request an end; only the first request has an effect."""
        if not self._request.done():
            self._request.set_result(request)

    async def run(self) -> int:
        """Run until the agent ends; return the exit code of the process."""
        self._events.booting(self._driver.ssh_local_port)
        machine = asyncio.create_task(self._run_machine(), name="machine")
        ends: set[asyncio.Future[Any]] = {machine, self._request}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        errors: list[Problem] = []
        if not machine.done():
            request = self._request.result()
            self._idle.keeps_suspended = request is StopRequest.DETACH
            machine.cancel()
            await asyncio.wait({machine})
            if request is StopRequest.DETACH:
                await self._detach()
            else:
                self._log.write("info", "Shutting down the machine")
                errors = await self._stop(0 if request is StopRequest.SUSPEND else STOP_GRACE_S)
        else:
            errors = [_reason(machine, self._log)]
            self._log.write("fatal", errors[0].message)
            errors += await self._stop(0)
        self._events.exiting(errors)
        if not self._detached.done():
            self._detached.set_result(None)
        return 1 if errors else 0

    async def _run_machine(self) -> None:
        """Start or adopt the machine and serve it; never return, raise why it ended."""
        driver = self._driver
        if await driver.adopt():
            self._log.write("info", f"Adopted the running {driver.name} driver")
            await self._idle.recover()
        else:
            PauseRecord.clear(self._directory.paused)
            self._log.write("info", f"Starting the {driver.name} driver")
            await driver.start()
        await self._idle.attach()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._monitor_driver(), name="driver")
            group.create_task(self._serve(), name="forwards")
            if isinstance(driver, PublishesPorts):  # an engine may need it to become ready
                serving = driver.serve_publications(self._forwarder)
                group.create_task(serving, name="publications")

    async def _monitor_driver(self) -> None:
        raise HostError(await self._driver.wait_ended())

    async def _serve(self) -> None:
        requirements = self._driver.requirements()
        essential = [r for r in requirements if r.phase is RequirementPhase.ESSENTIAL]
        await wait_for_requirements(essential, self._events, self._log)
        for problem in await self._forwarder.open_static():
            self._log.write("warning", problem.message)
            self._failed[problem.host_address] = problem
            self._events.degraded(problem)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_listeners(), name="listeners")
            for phase in (RequirementPhase.OPTIONAL, RequirementPhase.FINAL):
                await wait_for_requirements(
                    [r for r in requirements if r.phase is phase], self._events, self._log
                )
            self._events.running()
            self._log.write("info", "READY")
            probe = self._driver.liveness if isinstance(self._driver, HasLiveness) else None
            if probe is not None:
                watching = liveness.monitor(probe, self._events, self._log, self._idle.state)
                group.create_task(watching, name="liveness")
            group.create_task(self._idle.run(), name="idle")

    def _report_forward(self, event: PortEvent) -> None:
        self._events.port(event)
        if event.type == "forwarding" and (problem := self._failed.pop(event.host, None)):
            self._events.recovered(problem)

    async def _follow_listeners(self) -> None:
        async for listeners in self._driver.listeners():
            await self._forwarder.update(listeners)

    async def _stop(self, grace_s: float) -> list[Problem]:
        """Shut the machine down; return the errors."""
        await self._forwarder.close()
        try:
            await self._driver.stop(grace_s=grace_s)
        except HostError as error:
            self._log.write("error", str(error))
            return [problem_of(error)]
        return []

    async def _detach(self) -> None:
        self._log.write("info", "Detaching from the machine, which runs on")
        await self._forwarder.close()
        await self._driver.detach()

    async def info(self) -> dict[str, Any]:
        """Handle `/v1/info`: Lima's members, and the driver and pid."""
        return {
            "sshLocalPort": self._driver.ssh_local_port,
            "driver": self._driver.name,
            "pid": own_identity().pid,
        }

    async def status(self) -> dict[str, Any]:
        """Handle `/v1/status`: the last status of the events, and every forward."""
        forwards = [port_status(event) for event in self._forwarder.states()]
        return {**self._events.status, "driver": self._driver.name, "forwards": forwards}

    async def detach(self) -> dict[str, Any]:
        """Handle `/v1/let-go`: respond when another agent can adopt the machine."""
        self.request(StopRequest.DETACH)
        request = self._request.result()
        await asyncio.wait({self._detached}, timeout=STOP_GRACE_S + DETACH_S)
        return {"letGo": request is StopRequest.DETACH and self._detached.done()}

    async def suspend(self) -> dict[str, Any]:
        """Handle `/v1/suspend`: save the memory and stop; after a refusal the machine runs on."""
        driver = self._driver
        await self._idle.wake("a request to suspend the machine")
        try:
            if not isinstance(driver, Suspendable):
                raise HostError(f"the {driver.name} driver cannot suspend machines")
            if not self._events.status.get("running"):
                raise HostError("the machine is not running yet")
            await driver.suspend()
        except HostError as error:
            return {"suspended": False, "error": str(error)}
        self.request(StopRequest.SUSPEND)
        return {"suspended": True}

    async def grow_disk(self) -> dict[str, Any]:
        """Handle `/v1/disk`: grow the disk of the running machine to the size in its template."""
        driver = self._driver
        try:
            if not isinstance(driver, GrowsDisk):
                raise HostError(f"the {driver.name} driver cannot grow a disk in use")
            await driver.grow_disk(self._directory.template().disk)
        except (HostError, TemplateError) as error:
            return {"grown": False, "error": str(error)}
        return {"grown": True}

    async def wake(self) -> dict[str, Any]:
        """Handle `/v1/wake`: respond when the machine runs."""
        await self._idle.wake("a command of rdd")
        return {"awake": True}

    async def reload_idle_settings(self) -> dict[str, Any]:
        """Handle `/v1/idle`: read the settings of idle detection again."""
        self._idle.reload()
        return {"reloaded": True}

    def routes(self) -> dict[str, dict[str, Callable[[], Awaitable[dict[str, Any]]]]]:
        """Return the handlers of the control socket by path and method."""
        return {
            "/v1/info": {"GET": self.info},
            "/v1/status": {"GET": self.status},
            "/v1/let-go": {"POST": self.detach},
            "/v1/suspend": {"POST": self.suspend},
            "/v1/disk": {"POST": self.grow_disk},
            "/v1/wake": {"POST": self.wake},
            "/v1/idle": {"POST": self.reload_idle_settings},
        }


def problem_of(error: Exception) -> Problem:
    """Return an error as the problem of an event."""
    if isinstance(error, HostError):
        return Problem(str(error), reason=error.reason or "", remedy=error.remedy)
    return Problem(str(error))


def _reason(machine: "asyncio.Task[None]", log: AgentLog) -> Problem:
    """Return why a machine ended, from the exception of its task."""
    error = machine.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, HostError):
        return problem_of(error)
    if error is None:
        return Problem("the machine ended")
    log.write("error", "".join(traceback.format_exception(error)))
    return Problem(f"internal error: {type(error).__name__}: {error}")
