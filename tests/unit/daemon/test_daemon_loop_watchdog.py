# SPDX-License-Identifier: Apache-2.0
"""The watchdog names what holds the loop, and is awake only while the loop computes."""

import asyncio
import gc
import logging
import signal
import time
from types import FrameType

import pytest

from rdd.base.metrics import Registry
from rdd.daemon import loop_watchdog
from rdd.daemon.loop_watchdog import LoopWatchdog


def compute(seconds: float) -> None:
    """Use the CPU for some time of this thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def hold() -> None:
    compute(0.3)


async def answered() -> None:
    """Let the loop answer a question that is under way."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_code_that_holds_the_loop_is_named(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Registry()
    with LoopWatchdog(metrics).watching(), caplog.at_level(logging.WARNING, "rdd.daemon"):
        hold()
        await answered()
        hold()
        await answered()
    (line,) = [r.getMessage() for r in caplog.records if "was held for" in r.getMessage()]
    assert f"{__name__}.compute" in line and f"{__name__}.hold" in line
    text = metrics.render()
    assert f'rdd_loop_holds_total{{function="{__name__}.compute"}} 2' in text
    assert "rdd_loop_longest_hold_seconds 0." in text


async def test_code_that_pauses_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Registry()
    gc.disable()  # a collection of everything that pytest keeps would be named
    with LoopWatchdog(metrics).watching():
        for _ in range(100):
            compute(0.004)
            await asyncio.sleep(0)
        await answered()
    gc.enable()
    assert "rdd_loop_holds_total{" not in metrics.render()
    assert caplog.records == []


async def test_an_idle_loop_is_not_woken(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = 0
    tick = LoopWatchdog._tick

    def counted(self: LoopWatchdog, number: int, frame: FrameType | None) -> None:
        nonlocal ticks
        ticks += 1
        tick(self, number, frame)

    monkeypatch.setattr(LoopWatchdog, "_tick", counted)
    with LoopWatchdog(Registry()).watching():
        before = time.process_time()
        await asyncio.sleep(1)
        used = time.process_time() - before
    # At most one for each tick of CPU time, however long the loop has waited.
    assert ticks <= used / loop_watchdog.TICK_S + 2


async def test_nothing_is_left_after_the_end() -> None:
    watchdog = LoopWatchdog(Registry())
    watchdog.start()
    watchdog.stop()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    watchdog.stop()
