# SPDX-License-Identifier: Apache-2.0
"""Parts of the LimaVM controller: backoff, operations, conditions."""

import asyncio
from pathlib import Path

import pytest

from rdd.controllers.lima.limavm import reasons
from rdd.controllers.lima.limavm.backoff import LONGEST_S, AttemptBackoff
from rdd.controllers.lima.limavm.operations import Operations
from rdd.controllers.lima.limavm.reasons import REASONS
from rdd.runtime import Condition
from rdd.runtime.conditions import FORWARDED


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_delays_double_up_to_a_limit() -> None:
    backoff = AttemptBackoff(Clock())
    assert [backoff.failed() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert backoff.failures == 9
    backoff.reset()
    assert backoff.failed(first_s=0) == 0
    assert backoff.failed(first_s=0) == 2


def test_many_failures_do_not_overflow() -> None:
    backoff = AttemptBackoff(Clock())
    assert {backoff.failed() for _ in range(2000)} >= {LONGEST_S}


def test_remaining_delay_decreases() -> None:
    clock = Clock()
    backoff = AttemptBackoff(clock)
    assert backoff.remaining_s() == 0
    backoff.failed("template 1")
    backoff.failed("template 1")
    assert backoff.remaining_s("template 1") == 2
    clock.now += 1.5
    assert backoff.remaining_s("template 1") == 0.5
    clock.now += 1
    assert backoff.remaining_s("template 1") == 0
    assert backoff.failures == 2


def test_changed_desired_state_resets_the_backoff() -> None:
    backoff = AttemptBackoff(Clock())
    for _ in range(5):
        backoff.failed("template 1")
    assert backoff.remaining_s("template 2") == 0
    assert backoff.failures == 0


async def test_operation_reports_its_end_and_keeps_its_outcome() -> None:
    ended = asyncio.Event()
    operations = Operations(lambda name: ended.set())

    async def work() -> int:
        return 7

    operations.start("vm", "create", work(), "subject")
    operation = operations.get("vm")
    assert operation is not None
    assert operations.take("vm", "create") is None  # not before its end
    await ended.wait()
    assert operations.take("vm", "delete") is None
    taken = operations.take("vm", "create")
    assert taken is operation
    assert (taken.result(), taken.subject) == (7, "subject")
    assert operations.get("vm") is None


async def test_one_operation_at_a_time() -> None:
    operations = Operations(lambda name: None)

    async def work() -> None:
        await asyncio.sleep(60)

    operations.start("vm", "create", work())
    with pytest.raises(RuntimeError, match="vm: start during create"):
        operations.start("vm", "start", work())
    operations.start("other", "start", work())
    await operations.cancel_all()
    assert operations.get("vm") is None
    assert operations.get("other") is None


async def test_dropped_failure_is_not_logged() -> None:
    operations = Operations(lambda name: None)

    async def fail() -> None:
        raise OSError("no")

    operations.start("vm", "create", fail())
    await asyncio.sleep(0)
    await operations.cancel("vm")
    assert operations.get("vm") is None


STATES = [
    *(value for value in vars(reasons).values() if isinstance(value, Condition)),
    *(
        REASONS.condition(row.type, row.reason, "forwarded")
        for row in REASONS
        if row.message == FORWARDED
    ),
]


@pytest.mark.parametrize("state", STATES, ids=lambda state: f"{state.reason} {state.message}")
def test_every_condition_is_documented(state: Condition) -> None:
    page = (Path(__file__).parents[3] / "docs" / "limavm.md").read_text()
    kind = ""
    for row in page.splitlines():
        cells = [cell.strip() for cell in row.split("|")[1:-1]]
        if len(cells) != 4:
            continue
        kind = cells[0].strip("`") or kind
        if (kind, cells[1], cells[2]) == (state.type, state.status, f"`{state.reason}`"):
            assert state.message == "forwarded" or f"`{state.message}`" in cells[3]
            return
    pytest.fail(f"{state} is not documented")


def test_degraded_without_a_message() -> None:
    assert "without a message" in reasons.degraded([]).message
