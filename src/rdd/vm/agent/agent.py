# SPDX-License-Identifier: Apache-2.0
"""The life of a host agent: boot or adopt, wait, forward, and end in one of four ways.

It ends because it is told to stop (the machine is shut down), because it is told to let go
(the machine stays, for another agent), because the machine ended by itself, or because it did
not come up. The first two are successes. Whatever the way, forwards are closed, the last event
is `exiting` with the reasons, and the pid file and the socket are gone.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

from rdd.host.errors import HostError
from rdd.host.processes import own_identity
from rdd.vm.agent.events import AgentLog, EventStream, port_status
from rdd.vm.agent.readiness import wait_for
from rdd.vm.drivers.protocol import Driver, RequirementPhase, Suspendable
from rdd.vm.forwarding.forwarder import Forwarder, PortEvent
from rdd.vm.forwarding.rules import ForwardingRules
from rdd.vm.problem import Problem
from rdd.vm.template.model import Template

STOP_GRACE_S = 25.0
"""For a shutdown; whoever told us to stop waits 30 s before it uses force."""
DETACH_S = 5.0


class StopRequest(Enum):
    """What somebody told the agent to do."""

    STOP = auto()
    DETACH = auto()
    SUSPEND = auto()
    """End the machine, whose memory is kept already."""


class HostAgent:
    """One machine's agent. `run` is its whole life."""

    def __init__(
        self, driver: Driver, template: Template, *, events: EventStream, log: AgentLog
    ) -> None:
        self._driver = driver
        self._events = events
        self._log = log
        rules = ForwardingRules(template.port_forwards, ssh_local_port=driver.ssh_local_port)
        self._forwarder = Forwarder(rules, driver, report=self._tell_forward)
        self._failed: dict[str, Problem] = {}  # static forwards by host address
        self._request: asyncio.Future[StopRequest] = asyncio.get_running_loop().create_future()
        self._detached: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def request(self, request: StopRequest) -> None:
        """Tell the agent what to do; the first request counts."""
        if not self._request.done():
            self._request.set_result(request)

    async def run(self) -> int:
        """Live until something ends it; the exit code of the process."""
        self._events.booting(self._driver.ssh_local_port)
        life = asyncio.create_task(self._live(), name="machine")
        ends: set[asyncio.Future[Any]] = {life, self._request}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        errors: list[str] = []
        if not life.done():
            request = self._request.result()
            life.cancel()
            await asyncio.wait({life})
            if request is StopRequest.DETACH:
                await self._leave()
            else:
                self._log.write("info", "Shutting down the machine")
                errors = await self._stop(0 if request is StopRequest.SUSPEND else STOP_GRACE_S)
        else:
            errors = [_reason(life, self._log)]
            self._log.write("fatal", errors[0])
            errors += await self._stop(0)
        self._events.exiting(errors)
        if not self._detached.done():
            self._detached.set_result(None)
        return 1 if errors else 0

    async def _live(self) -> None:
        """Bring the machine up and keep it going; returns never, raises why it ended."""
        driver = self._driver
        if await driver.adopt():
            self._log.write("info", f"Took over the running {driver.name} driver")
        else:
            self._log.write("info", f"Starting the {driver.name} driver")
            await driver.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_driver(), name="driver")
            group.create_task(self._serve(), name="forwards")

    async def _watch_driver(self) -> None:
        raise HostError(await self._driver.wait_ended())

    async def _serve(self) -> None:
        requirements = self._driver.requirements()
        essential = [r for r in requirements if r.phase is RequirementPhase.ESSENTIAL]
        await wait_for(essential, self._events, self._log)
        for problem in await self._forwarder.open_static():
            self._log.write("warning", problem.message)
            self._failed[problem.host_address] = problem
            self._events.degraded(problem)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_listeners(), name="listeners")
            for phase in (RequirementPhase.OPTIONAL, RequirementPhase.FINAL):
                await wait_for(
                    [r for r in requirements if r.phase is phase], self._events, self._log
                )
            self._events.running()
            self._log.write("info", "READY")

    def _tell_forward(self, event: PortEvent) -> None:
        self._events.port(event)
        if event.type == "forwarding" and (problem := self._failed.pop(event.host, None)):
            self._events.recovered(problem)

    async def _follow_listeners(self) -> None:
        async for listeners in self._driver.listeners():
            await self._forwarder.update(listeners)

    async def _stop(self, grace_s: float) -> list[str]:
        """Shut the machine down; what went wrong."""
        await self._forwarder.close()
        try:
            await self._driver.stop(grace_s=grace_s)
        except HostError as error:
            self._log.write("error", str(error))
            return [str(error)]
        return []

    async def _leave(self) -> None:
        self._log.write("info", "Letting go of the machine; it keeps running")
        await self._forwarder.close()
        await self._driver.detach()

    async def info(self) -> dict[str, Any]:
        """`/v1/info`: what Lima's agent tells, and who we are."""
        return {
            "sshLocalPort": self._driver.ssh_local_port,
            "driver": self._driver.name,
            "pid": own_identity().pid,
        }

    async def status(self) -> dict[str, Any]:
        """`/v1/status`: the last status of the events, and every forward."""
        forwards = [port_status(event) for event in self._forwarder.states()]
        return {**self._events.status, "driver": self._driver.name, "forwards": forwards}

    async def detach(self) -> dict[str, Any]:
        """`/v1/let-go`: answers when the machine is free for another agent."""
        self.request(StopRequest.DETACH)
        request = self._request.result()
        await asyncio.wait({self._detached}, timeout=STOP_GRACE_S + DETACH_S)
        return {"letGo": request is StopRequest.DETACH and self._detached.done()}

    async def suspend(self) -> dict[str, Any]:
        """`/v1/suspend`: keep the machine's memory and end it; when refused, it runs on."""
        driver = self._driver
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

    def routes(self) -> dict[str, dict[str, Callable[[], Awaitable[dict[str, Any]]]]]:
        """The requests this agent answers."""
        return {
            "/v1/info": {"GET": self.info},
            "/v1/status": {"GET": self.status},
            "/v1/let-go": {"POST": self.detach},
            "/v1/suspend": {"POST": self.suspend},
        }


def _reason(life: "asyncio.Task[None]", log: AgentLog) -> str:
    """Why a machine ended, from the exceptions its tasks ended with."""
    error = life.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, HostError):
        return str(error)
    if error is None:
        return "the machine ended"
    log.write("error", "".join(traceback.format_exception(error)))
    return f"internal error: {type(error).__name__}: {error}"
