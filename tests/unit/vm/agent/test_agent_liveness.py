# SPDX-License-Identifier: Apache-2.0
"""The probe of a machine that hangs, and the watchdog of the agent's own loop."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.vm.agent import liveness
from rdd.vm.agent.events import AgentLog, EventStream
from rdd.vm.drivers.protocol import LivenessProbe, Unmet
from rdd.vm.idle.activity import PauseState
from rdd.vm.problem import AGENT_HUNG, ENGINE_HUNG, Problem


class Monitored:
    """A monitor with a probe that tests control."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.log = os.open(os.devnull, os.O_WRONLY)
        self.events = EventStream(descriptor=self.descriptor)
        self.events.running()
        self.hangs = False
        self.fails: bool | str = False
        """`once`: the next probe only."""
        self.probed = 0
        self.state = PauseState()

    async def check(self) -> None:
        self.probed += 1
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.fails:
            self.fails = self.fails is True
            raise Unmet("refused")

    def reasons(self) -> list[list[str]]:
        """Return the reasons of the problems in each event."""
        found: list[dict[str, Any]] = [
            json.loads(line)["status"] for line in self.path.read_text().splitlines()
        ]
        return [[one["reason"] for one in status.get("problems", [])] for status in found]


@pytest.fixture
async def monitored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Monitored]:
    monkeypatch.setattr(liveness, "INTERVAL_S", 0.02)
    monkeypatch.setattr(liveness, "DEADLINE_S", 0.02)
    made = Monitored(tmp_path / "events")
    probe = LivenessProbe("the container engine", ENGINE_HUNG, made.check)
    log = AgentLog(descriptor=made.log)
    task = asyncio.create_task(liveness.monitor(probe, made.events, log, made.state))
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    os.close(made.descriptor)
    os.close(made.log)


async def _until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - the state of a file
            await asyncio.sleep(0.01)


def test_two_missed_deadlines_end_within_15_s() -> None:
    assert liveness.INTERVAL_S + liveness.MISSES * liveness.DEADLINE_S < 15


@pytest.mark.parametrize("how", ["hangs", "fails"])
async def test_hang_is_reported_once_and_until_it_ends(monitored: Monitored, how: str) -> None:
    await _until(lambda: monitored.probed)
    setattr(monitored, how, True)
    await _until(lambda: monitored.reasons()[-1] == [ENGINE_HUNG])
    probed = monitored.probed
    await _until(lambda: monitored.probed > probed + 3)
    assert len(monitored.reasons()) == 2
    setattr(monitored, how, False)
    await _until(lambda: monitored.reasons()[-1] == [])


async def test_one_missed_deadline_is_tolerated(monitored: Monitored) -> None:
    monitored.fails = "once"
    await _until(lambda: not monitored.fails)
    probed = monitored.probed
    await _until(lambda: monitored.probed > probed + 3)
    assert len(monitored.reasons()) == 1


def test_blocked_loop_is_reported_by_a_thread(tmp_path: Path) -> None:
    monitored = Monitored(tmp_path / "events")
    reported = threading.Event()

    def report() -> None:
        monitored.events.report_from_thread(Problem("blocked", AGENT_HUNG))
        reported.set()

    watchdog = liveness.LoopWatchdog(report, deadline_s=0.05)
    try:
        assert reported.wait(60)
        assert monitored.reasons()[-1] == [AGENT_HUNG]
        assert watchdog.beat()
        monitored.events.report_again()
        assert monitored.reasons()[-1] == []
    finally:
        watchdog.end()
        os.close(monitored.descriptor)
        os.close(monitored.log)


async def test_paused_machine_is_not_probed_and_no_deadline_runs(monitored: Monitored) -> None:
    await _until(lambda: monitored.probed)
    monitored.hangs = True
    probed = monitored.probed
    await _until(lambda: monitored.probed > probed)  # a probe is in progress
    monitored.state.begin()
    monitored.hangs = False
    await asyncio.sleep(liveness.DEADLINE_S + liveness.INTERVAL_S)
    probed = monitored.probed
    await asyncio.sleep(10 * liveness.INTERVAL_S)
    assert monitored.probed == probed
    monitored.state.awake.set()
    await _until(lambda: monitored.probed > probed)
    assert not any(monitored.reasons())
