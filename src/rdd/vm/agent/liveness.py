# SPDX-License-Identifier: Apache-2.0
"""Liveness of a machine: its engine or guest is probed, and so is the agent's own event loop.

A process that hangs looks alive: it has a pid, and its sockets accept connections. So the agent
probes what it runs, every few seconds with a deadline, and reports a problem after two missed
deadlines in a row; the next response ends it. The daemon is idle meanwhile: it learns of a
change from the event stream. The agent is a process per machine, so a probe that blocks
disturbs nothing else.

A thread watches the event loop of the agent itself. It reports by writing to the event stream
directly, because the loop cannot. A stopped agent cannot report anything; the daemon gets
that from the kernel (`rdd.vm.lifecycle.stopped_agent`). A paused machine cannot respond; no
deadline runs while it is paused, and neither the probe nor the thread wakes the agent up.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from rdd.vm.agent.events import AgentLog, EventStream
from rdd.vm.drivers.protocol import LivenessProbe, Unmet
from rdd.vm.idle.activity import PauseState
from rdd.vm.problem import AGENT_HUNG, Problem

INTERVAL_S = 5.0
DEADLINE_S = 3.5
"""Two missed ones after an interval: a hang is reported within 12 s."""
MISSES = 2
LOOP_DEADLINE_S = INTERVAL_S + 2 * DEADLINE_S


async def monitor(
    probe: LivenessProbe, events: EventStream, log: AgentLog, state: PauseState
) -> None:
    """Probe a running machine until cancelled, but not while it is paused."""
    problem = Problem(
        f"{probe.what} does not respond: {MISSES} probes in a row had no answer "
        f"within {DEADLINE_S:g} s",
        probe.reason,
    )
    hung = Problem("the host agent does not respond: its event loop is blocked", AGENT_HUNG)
    misses = 0
    while True:
        await state.awake.wait()
        watchdog = LoopWatchdog(lambda: events.report_from_thread(hung))
        try:
            while True:
                await asyncio.sleep(INTERVAL_S if misses in (0, MISSES) else 0)
                if not state.awake.is_set():
                    break
                if watchdog.beat():
                    events.report_again()
                pauses = state.pauses
                responds = await _responds(probe)
                if responds:
                    if misses == MISSES:
                        log.write("info", f"{probe.what} responds again")
                        events.recovered(problem)
                    misses = 0
                elif state.pauses != pauses:
                    continue
                elif misses < MISSES:
                    misses += 1
                    if misses == MISSES:
                        log.write("warning", problem.message)
                        events.degraded(problem)
        finally:
            watchdog.end()


async def _responds(probe: LivenessProbe) -> bool:
    """Return whether a probe succeeds; a failure takes the whole deadline, too."""
    end = asyncio.get_running_loop().time() + DEADLINE_S
    try:
        async with asyncio.timeout_at(end):
            await probe.check()
        return True
    except TimeoutError:
        return False
    except Unmet:
        await asyncio.sleep(max(0, end - asyncio.get_running_loop().time()))
        return False


class LoopWatchdog:
    """Calls `report` in a thread when `beat` was not called for too long."""

    def __init__(self, report: Callable[[], None], *, deadline_s: float = LOOP_DEADLINE_S) -> None:
        self._report = report
        self._deadline_s = deadline_s
        self._last = time.monotonic()
        self._has_reported = False
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="loop watchdog", daemon=True).start()

    def beat(self) -> bool:
        """Record that the loop runs; return whether it was reported as blocked before."""
        self._last = time.monotonic()
        reported, self._has_reported = self._has_reported, False
        return reported

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(max(0.1, self._last + self._deadline_s - time.monotonic())):
            late_s = time.monotonic() - self._last - self._deadline_s
            # A process that was stopped is late, too: its loop gets the chance to run first.
            if late_s >= 0 and not self._has_reported and not self._ended.wait(1):
                if time.monotonic() - self._last >= self._deadline_s:
                    self._has_reported = True
                    self._report()
            elif self._has_reported:
                self._ended.wait(self._deadline_s)
