# SPDX-License-Identifier: Apache-2.0
"""The small parts of the LimaVM controller."""

import asyncio
from pathlib import Path

import pytest

from rdd.controllers.lima.limavm import report
from rdd.controllers.lima.limavm.backoff import LONGEST_S, Backoff
from rdd.controllers.lima.limavm.operations import Activities
from rdd.controllers.lima.limavm.report import Says


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_pauses_double_up_to_a_limit() -> None:
    backoff = Backoff(Clock())
    assert [backoff.failed() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert backoff.failures == 9
    backoff.reset()
    assert backoff.failed(first_s=0) == 0
    assert backoff.failed(first_s=0) == 2


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(Clock())
    assert {backoff.failed() for _ in range(2000)} >= {LONGEST_S}


def test_a_pause_passes_with_the_time() -> None:
    clock = Clock()
    backoff = Backoff(clock)
    assert backoff.left_s() == 0
    backoff.failed("template 1")
    backoff.failed("template 1")
    assert backoff.left_s("template 1") == 2
    clock.now += 1.5
    assert backoff.left_s("template 1") == 0.5
    clock.now += 1
    assert backoff.left_s("template 1") == 0
    assert backoff.failures == 2


def test_something_else_is_tried_at_once() -> None:
    backoff = Backoff(Clock())
    for _ in range(5):
        backoff.failed("template 1")
    assert backoff.left_s("template 2") == 0
    assert backoff.failures == 0


async def test_an_activity_tells_its_end_and_keeps_its_outcome() -> None:
    ended = asyncio.Event()
    activities = Activities(lambda name: ended.set())

    async def work() -> int:
        return 7

    activities.begin("vm", "create", work(), "about")
    activity = activities.get("vm")
    assert activity is not None
    assert activities.take("vm", "create") is None  # not before its end
    await ended.wait()
    assert activities.take("vm", "delete") is None
    taken = activities.take("vm", "create")
    assert taken is activity
    assert (taken.result(), taken.about) == (7, "about")
    assert activities.get("vm") is None


async def test_one_thing_at_a_time() -> None:
    activities = Activities(lambda name: None)

    async def work() -> None:
        await asyncio.sleep(60)

    activities.begin("vm", "create", work())
    with pytest.raises(RuntimeError, match="vm: start during create"):
        activities.begin("vm", "start", work())
    activities.begin("other", "start", work())
    await activities.cancel_all()
    assert activities.get("vm") is None
    assert activities.get("other") is None


async def test_a_failure_nobody_asks_for_is_no_noise() -> None:
    activities = Activities(lambda name: None)

    async def fail() -> None:
        raise OSError("no")

    activities.begin("vm", "create", fail())
    await asyncio.sleep(0)
    await activities.cancel("vm")
    assert activities.get("vm") is None


STATES = [
    *(value for value in vars(report).values() if isinstance(value, Says)),
    report.create_failed("why"),
    report.start_failed("why"),
    report.stop_failed("why"),
    report.degraded(["why"]),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.reason} {state.message}")
def test_every_state_is_in_the_documentation(state: Says) -> None:
    page = (Path(__file__).parents[3] / "docs" / "limavm.md").read_text()
    kind = ""
    for row in page.splitlines():
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        if len(cells) != 4:
            continue
        kind = cells[0].strip("`") or kind
        if (kind, cells[1], cells[2]) == (state.type, state.status, f"`{state.reason}`"):
            assert state.message == "why" or f"`{state.message}`" in cells[3]
            return
    pytest.fail(f"{state} is not described")


def test_degraded_without_a_reason_says_so() -> None:
    assert report.degraded([]).message == "the host agent does not say why"
