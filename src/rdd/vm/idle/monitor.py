# SPDX-License-Identifier: Apache-2.0
"""Decides that a machine is idle, pauses it, and wakes it with the first byte of a client.

    active ──no request, no byte, for almost afterSeconds──► measuring ──no busy container──► paused
       ▲                                                        │                               │
       └────────────── activity, or a busy container ───────────┴────── first byte, a command ──┘

Without an action there is no timer. With one there is a single timer, which expires at the
earliest possible end of the idle time: an activity only records its time. Containers are
measured in the last seconds before the pause, so a busy machine is measured once per
`afterSeconds`.

Invariant: a pause is recorded (on disk, then in the events) before the machine is paused, and
the record is removed after it runs again. An agent that starts wakes the machine, whatever its
predecessor did.

A timer that expires much too late means that this process did not run: the host slept, or the
process tree was stopped. What clients did meanwhile waits in the sockets, so idle time starts
again.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rdd.host.errors import HostError
from rdd.vm.agent.events import AgentLog, now
from rdd.vm.drivers.pausing import HasPausing, Pausable
from rdd.vm.drivers.protocol import Driver
from rdd.vm.idle.activity import Activity, PauseState
from rdd.vm.idle.load import busy_containers
from rdd.vm.idle.report import IdleReport, PauseRecord
from rdd.vm.idle.settings import IdleAction, IdleSettings

LONGEST_WINDOW_S = 10.0
"""For how long containers are measured before a pause."""
_LATE_S = 5.0
_RESUME_ATTEMPTS = 3
_RETRY_S = 0.1
_INSTEAD = "it is paused instead"


class IdleMonitor:
    """Idle detection of one machine, in its host agent."""

    def __init__(
        self,
        driver: Driver,
        *,
        settings_file: Path,
        record_file: Path,
        report: Callable[[IdleReport], None],
        log: AgentLog,
    ) -> None:
        problem = f"the {driver.name} driver cannot detect that a machine is idle"
        found = driver.pausing if isinstance(driver, HasPausing) else problem
        self._machine: Pausable | None = None if isinstance(found, str) else found
        self._problem = found if isinstance(found, str) else ""
        self._settings_file = settings_file
        self._record_file = record_file
        self._write_report = report
        self._log = log
        self._report = IdleReport()
        self._activity = Activity()
        self._changed = asyncio.Event()
        self._woken: asyncio.Future[str] | None = None
        self._is_paused = False
        self._pausing: asyncio.Task[str] | None = None
        self._fallback = ""
        """Why the action in effect is not the wanted one."""
        self.keeps_suspended = False
        """A suspended machine is left to the next agent, not woken up."""
        self.state = PauseState()

    async def attach(self) -> None:
        """Observe the clients of a machine that has been started or adopted."""
        if self._machine is not None:
            await self._machine.observe(self._activity, is_needed=False)

    async def recover(self) -> None:
        """Wake a machine that an earlier agent left paused. Raises HostError."""
        record = PauseRecord.read(self._record_file)
        if self._machine is not None:
            await self._machine.resume()
        if record is not None:
            self._log.write("info", f"Woke the machine, which was paused since {record.since}")
            self._report = replace(self._report, woken_at=now("seconds"), cause="a new host agent")
        PauseRecord.clear(self._record_file)

    def reload(self) -> None:
        """Read the settings again; a paused machine wakes up for it."""
        self._changed.set()

    async def wake(self, cause: str) -> None:
        """Wake the machine, and return when it runs."""
        self._activity.touch(cause)
        await self.state.awake.wait()

    async def run(self) -> None:
        """Detect idle time until cancelled; a paused machine is then woken up."""
        try:
            while True:
                self._changed.clear()
                settings = IdleSettings.read(self._settings_file)
                action, problem = self._action(settings)
                self._fallback = problem
                if self._machine is not None:
                    await self._machine.observe(self._activity, is_needed=action != "none")
                self._activity.last_s = asyncio.get_running_loop().time()
                self._set(
                    action=action if settings.action != "none" else "",
                    problem=problem,
                    awake_because="",
                    wants_stop=False,
                    has_failed=False,
                )
                await self._serve(settings, action)
        finally:
            await asyncio.shield(self._resume("the end of the host agent"))

    def _action(self, settings: IdleSettings) -> tuple[IdleAction, str]:
        """Return the action that the driver supports, and why it is not the wanted one."""
        wanted = settings.action
        if wanted == "none":
            return wanted, ""
        if self._machine is None:
            return "none", self._problem
        if problem := self._machine.idle_problem(wanted):
            return "none", problem
        if wanted == "suspend" and (problem := self._machine.suspend_problem()):
            return "pause", f"{problem}; {_INSTEAD}"
        return wanted, ""

    async def _serve(self, settings: IdleSettings, action: IdleAction) -> None:
        """Serve one version of the settings; return when they change."""
        changed = asyncio.create_task(self._changed.wait(), name="idle settings")
        tasks: set[asyncio.Task[object]] = {changed}
        if action != "none":
            tasks.add(asyncio.create_task(self._detect(settings, action), name="idle detection"))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.shield(self._resume("a change of its settings"))

    async def _detect(self, settings: IdleSettings, action: IdleAction) -> None:
        while True:
            await self._idle(settings)
            cause = f"no activity for {settings.after_s:g} s"
            if action == "stop":
                await self._request_stop(cause)
            else:
                await self._pause(cause, action)

    # -- the decision

    async def _idle(self, settings: IdleSettings) -> None:
        """Return when the machine has been idle for long enough."""
        window_s = min(LONGEST_WINDOW_S, settings.after_s / 2)
        while True:
            if not await self._quiet(settings.after_s - window_s):
                continue
            try:
                reason = await self._busy_container(settings, window_s)
            except HostError as error:
                reason = f"its containers cannot be measured: {error}"
            if reason is None:
                continue
            if not reason:
                return
            self._set(awake_because=reason)
            self._activity.last_s = asyncio.get_running_loop().time()

    async def _quiet(self, duration_s: float) -> bool:
        """Return whether there has been no activity for `duration_s`; wait at most that long."""
        loop, activity = asyncio.get_running_loop(), self._activity
        due_s = loop.time() + duration_s
        if not activity.is_busy:
            due_s = activity.last_s + duration_s
        if due_s > loop.time():
            await asyncio.sleep(due_s - loop.time())
            if loop.time() - due_s > _LATE_S:
                activity.last_s = loop.time()
        return not activity.is_busy and activity.last_s + duration_s <= loop.time()

    async def _busy_container(self, settings: IdleSettings, window_s: float) -> str | None:
        """Measure; return a busy container, "" if there is none, None after an activity."""
        assert self._machine is not None
        loop, last_s = asyncio.get_running_loop(), self._activity.last_s
        before, began_s = await self._machine.loads(), loop.time()
        await asyncio.sleep(window_s)
        after, elapsed_s = await self._machine.loads(), loop.time() - began_s
        busy = busy_containers(before, after, elapsed_s=elapsed_s, settings=settings)
        if not busy:
            busy = [*await self._machine.kept_awake()]
        if self._activity.is_busy or self._activity.last_s != last_s:
            return None
        if elapsed_s - window_s > _LATE_S:
            self._activity.last_s = loop.time()
            return None
        return busy[0] if busy else ""

    # -- pause and wake

    async def _pause(self, cause: str, action: IdleAction) -> None:
        """Pause the machine until something wakes it up."""
        assert self._machine is not None
        woken = self._expect_activity()
        since = now("seconds")
        try:
            PauseRecord(since, cause).write(self._record_file)
            self._is_paused = True
            self.state.begin()
            self._set(
                paused_since=since, cause=cause, awake_because="", woken_at="", has_failed=False
            )
            self._pausing = asyncio.create_task(self._machine.pause(action), name="pause")
            problem = await asyncio.shield(self._pausing)
        except HostError as error:
            await self._resume("a failed pause")
            self._set(awake_because=f"it could not be paused: {error}", has_failed=True)
            self._activity.last_s = asyncio.get_running_loop().time()
            return
        is_suspended = action == "suspend" and not problem
        text = f"{problem}; {_INSTEAD}" if problem else self._fallback
        self._set(is_suspended=is_suspended, problem=text)
        self._log.write("info", f"{'Suspended' if is_suspended else 'Paused'} the machine: {cause}")
        await self._resume(await woken)

    async def _request_stop(self, cause: str) -> None:
        """Let the controller stop the machine, unless a client appears before."""
        woken = self._expect_activity()
        self._set(wants_stop=True, cause=cause)
        await woken
        self._activity.wake = None
        self._set(wants_stop=False, cause="")

    def _expect_activity(self) -> "asyncio.Future[str]":
        """Return a future that has the cause of the next activity."""
        woken: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def wake(cause: str) -> None:
            if not woken.done():
                woken.set_result(cause)

        self._activity.wake = wake
        return woken

    async def _resume(self, cause: str) -> None:
        """Let a paused machine run, and report why."""
        self._activity.wake = None
        if not self._is_paused or (self._report.is_suspended and self.keeps_suspended):
            return
        assert self._machine is not None
        if self._pausing is not None:  # saving memory takes seconds
            await asyncio.wait({self._pausing})
        for attempt in range(_RESUME_ATTEMPTS):
            try:
                await self._machine.resume()
                break
            except HostError as error:
                self._log.write("error", f"The machine does not wake up: {error}")
                if attempt < _RESUME_ATTEMPTS - 1:
                    await asyncio.sleep(_RETRY_S)
        self._is_paused = False
        self._activity.last_s = asyncio.get_running_loop().time()
        with suppress(HostError):  # the next agent then wakes a machine that runs
            PauseRecord.clear(self._record_file)
        self.state.awake.set()
        self._log.write("info", f"Woke the machine: {cause}")
        self._set(
            paused_since="",
            is_suspended=False,
            cause=cause,
            woken_at=now("seconds"),
            problem=self._fallback,
        )

    def _set(self, **changes: object) -> None:
        """Change the report, and write it if it differs."""
        changed = replace(self._report, **changes)  # type: ignore[arg-type]
        if changed != self._report:
            self._report = changed
            self._write_report(changed)
