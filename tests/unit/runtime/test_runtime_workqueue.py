# SPDX-License-Identifier: Apache-2.0
"""The work queue: deduplication, one worker per key, exponential backoff."""

import asyncio

import pytest

from rdd.runtime.metrics import Metrics
from rdd.runtime.workqueue import Drained, WorkQueue

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]


async def test_returns_a_key_once_if_added_several_times() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_deduplicates_5000_additions_of_100_keys() -> None:
    queue: WorkQueue[int] = WorkQueue("q")
    for i in range(5000):
        queue.add(i % 100)
    assert len(queue) == 100


async def test_active_key_is_queued_again_when_done() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done(key)
    assert await queue.get() == "a"
    queue.done(key)
    assert queue.is_idle


async def test_backoff_doubles_from_5_ms_to_1000_s_and_is_reset() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    loop = asyncio.get_running_loop()
    pauses = []
    for _ in range(20):
        begun = loop.time()
        queue.add_rate_limited("a")
        queue.done(await queue.get())
        pauses.append(round(loop.time() - begun, 3))
    assert pauses[:4] == [0.005, 0.01, 0.02, 0.04]
    assert pauses[17:] == [655.36, 1000.0, 1000.0]
    assert queue.failures("a") == 20
    queue.forget("a")
    begun = loop.time()
    queue.add_rate_limited("a")
    await queue.get()
    assert round(loop.time() - begun, 3) == 0.005


async def test_delay_of_one_key_does_not_affect_others() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    queue.add_after("slow", 100)
    queue.add("quick")
    assert await queue.get() == "quick"
    assert asyncio.get_running_loop().time() < 1


async def test_shorter_delay_wins_and_add_cancels_delays() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    queue.add_after("a", 100)
    queue.add_after("a", 10)
    queue.add_after("a", 50)
    begun = asyncio.get_running_loop().time()
    queue.done(await queue.get())
    assert round(asyncio.get_running_loop().time() - begun, 3) == 10
    queue.add_after("a", 10)
    queue.add("a")
    queue.done(await queue.get())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1000):
            await queue.get()


async def test_refills_after_an_overflow() -> None:
    metrics = Metrics()
    exists = list(range(10))

    def refill() -> None:
        for key in exists[3:]:
            queue.add(key)

    queue: WorkQueue[int] = WorkQueue("q", capacity=3, refill=refill, metrics=metrics)
    for key in exists:
        queue.add(key)
    assert metrics.value("workqueue_overflows_total", name="q") == 7
    seen = []
    for _ in range(6):
        key = await queue.get()
        seen.append(key)
        queue.done(key)
        exists = [k for k in range(10) if k not in seen or k < 3]
    assert seen == [0, 1, 2, 3, 4, 5]


async def test_drain_waits_for_active_keys_and_wakes_waiting_workers() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    queue.add("a")
    key = await queue.get()
    queue.add("b")
    queue.add("a")
    queue.add_after("c", 1)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(queue.get())
        await asyncio.sleep(0)
        assert waiting.done()
        queue.done("b")
        draining = group.create_task(queue.drain())
        group.create_task(_drained(queue))
        await asyncio.sleep(5)
        assert not draining.done()
        queue.done(key)
    assert queue.is_idle
    queue.add("d")
    assert len(queue) == 0


async def _drained(queue: WorkQueue[str]) -> None:
    with pytest.raises(Drained):
        await queue.get()


async def test_cancelled_worker_passes_on_its_wake_up() -> None:
    queue: WorkQueue[str] = WorkQueue("q")
    first = asyncio.ensure_future(queue.get())
    second = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled() or await asyncio.gather(first, return_exceptions=True)


async def test_metrics_show_depth_additions_and_retries() -> None:
    metrics = Metrics()
    queue: WorkQueue[str] = WorkQueue('q"', metrics=metrics)
    queue.add("a")
    queue.add_rate_limited("b")
    text = metrics.render()
    assert 'workqueue_depth{name="q\\""} 1' in text
    assert 'workqueue_adds_total{name="q\\""} 1' in text
    assert 'workqueue_retries_total{name="q\\""} 1' in text
    await queue.get()
    assert 'workqueue_queue_duration_seconds_count{name="q\\""} 1' in metrics.render()
    queue.shut_down()
