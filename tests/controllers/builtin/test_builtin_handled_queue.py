# SPDX-License-Identifier: Apache-2.0
"""The queue of the built-in controllers: one worker per key, retries, logs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from rdd.api import errors
from rdd.controllers.builtin.handled_queue import LONGEST_RETRY_S, HandledQueue, Retry


@asynccontextmanager
async def running(
    handle: Callable[[str], Awaitable[None]], *, workers: int = 1, first_retry_s: float = 0.01
) -> AsyncIterator[HandledQueue[str]]:
    queue = HandledQueue("test", handle, workers=workers, first_retry_s=first_retry_s)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_handles_a_key_once_if_added_several_times() -> None:
    handled: list[str] = []
    done = asyncio.Event()

    async def handle(key: str) -> None:
        handled.append(key)
        if key == "last":
            done.set()

    async with running(handle) as queue:
        for key in ("a", "a", "b", "a", "last"):
            queue.add(key)
        await done.wait()
    assert handled == ["a", "b", "last"]


async def test_handles_a_key_again_if_added_meanwhile_but_never_concurrently() -> None:
    entered: asyncio.Queue[None] = asyncio.Queue()
    leave: asyncio.Queue[None] = asyncio.Queue()
    at_once = most = 0

    async def handle(key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        entered.put_nowait(None)
        await leave.get()
        at_once -= 1

    async with running(handle, workers=5) as queue:
        queue.add("a")
        await entered.get()
        queue.add("a")
        queue.add("a")
        leave.put_nowait(None)
        await entered.get()
        leave.put_nowait(None)
        await queue.drain()
    assert most == 1
    assert entered.empty()


async def test_limits_concurrent_handlers() -> None:
    at_once = most = 0
    done = asyncio.Event()

    async def handle(key: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)
        at_once -= 1
        if key == "19":
            done.set()

    async with running(handle, workers=3) as queue:
        for n in range(20):
            queue.add(str(n))
        await done.wait()
    assert most == 3


@pytest.mark.parametrize(
    "error, level",
    [
        pytest.param(errors.Conflict("c"), "DEBUG", id="conflict"),
        pytest.param(errors.InternalError("i"), "WARNING", id="API"),
        pytest.param(Retry("r"), "WARNING", id="retry"),
        pytest.param(ConnectionError("c"), "WARNING", id="connection"),
        pytest.param(KeyError("bug"), "ERROR", id="bug"),
    ],
)
async def test_retries_a_failed_key_and_logs_the_reason_once(
    error: Exception,
    level: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = 3
    done = asyncio.Event()

    async def handle(key: str) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise error
        done.set()

    with caplog.at_level("DEBUG", logger="rdd.controllers.builtin"):
        async with running(handle, first_retry_s=0.0) as queue:
            queue.add("a")
            await done.wait()
    levels = [record.levelname for record in caplog.records]
    assert levels == [level, "DEBUG", "DEBUG"]


async def test_backoff_doubles_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []
    done = asyncio.Event()

    def later(self: HandledQueue[str], key: str, delay_s: float) -> None:
        delays.append(delay_s)
        if len(delays) == 20:
            done.set()
        else:
            self._dirty.add(key)

    monkeypatch.setattr(HandledQueue, "add_after", later)

    async def handle(key: str) -> None:
        raise Retry("again")

    async with running(handle) as queue:
        queue.add("a")
        await done.wait()
    assert delays[:4] == [0.01, 0.02, 0.04, 0.08]
    assert delays[-1] == LONGEST_RETRY_S


async def test_event_cancels_the_backoff() -> None:
    handled = asyncio.Event()

    async def handle(key: str) -> None:
        handled.set()

    async with running(handle) as queue:
        queue.add_after("a", 1000)
        queue.add_after("a", 2000)
        queue.add("a")
        await handled.wait()
        assert queue.is_idle


async def test_earlier_of_two_delays_wins() -> None:
    handled = asyncio.Event()

    async def handle(key: str) -> None:
        handled.set()

    async with running(handle) as queue:
        queue.add_after("a", 1000)
        queue.add_after("a", 0)
        await handled.wait()


async def test_drained_queue_has_no_worker() -> None:
    done = asyncio.Event()

    async def handle(key: str) -> None:
        done.set()

    async with running(handle, workers=8) as queue:
        queue.add("a")
        await done.wait()
        await queue.drain()
        await asyncio.sleep(0)
        assert not any(t.get_name() == "rdd-test-worker" for t in asyncio.all_tasks())


async def test_drained_queue_ignores_new_keys() -> None:
    handled: list[str] = []

    async def handle(key: str) -> None:
        handled.append(key)

    async with running(handle) as queue:
        queue.add("a")
        await queue.drain()
        queue.add("b")
        queue.add_after("c", 0)
        await asyncio.sleep(0)
        assert queue.is_idle
    assert "b" not in handled and "c" not in handled
