# SPDX-License-Identifier: Apache-2.0
"""The checks of the attacks find planted faults, and accept what is allowed."""

import random

import pytest
from tests.etcd_attack.checker import (
    ABSENT,
    CONFLICT,
    CREATE,
    DELETE,
    EXISTS,
    OK,
    READ,
    UNKNOWN,
    UPDATE,
    Change,
    Operation,
    is_linearizable,
    violations,
    watch_problem,
)


def op(
    kind: str,
    span: tuple[float, float],
    value: str | None = None,
    outcome: str = OK,
    expected: str | None = None,
) -> Operation:
    return Operation("k", kind, outcome, *span, value, expected)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([op(CREATE, (0, 1), "a"), op(READ, (2, 3), "a")], id="read after write"),
        pytest.param([op(CREATE, (0, 5), "a"), op(READ, (1, 2))], id="concurrent read before"),
        pytest.param(
            [op(CREATE, (0, 1), "a", UNKNOWN), op(READ, (2, 3)), op(READ, (4, 5), "a")],
            id="unknown write takes effect late",
        ),
        pytest.param(
            [op(CREATE, (0, 1), "a", UNKNOWN), op(READ, (2, 3)), op(CREATE, (4, 5), "b")],
            id="unknown write never takes effect",
        ),
        pytest.param(
            [
                op(CREATE, (0, 1), "a"),
                op(UPDATE, (2, 6), "b", OK, "a"),
                op(UPDATE, (3, 5), "c", CONFLICT, "a"),
            ],
            id="one of two updates wins",
        ),
        pytest.param(
            [op(CREATE, (0, 1), "a"), op(DELETE, (2, 3)), op(UPDATE, (4, 5), "b", ABSENT, "a")],
            id="update of a deleted object",
        ),
    ],
)
def test_allowed_history_is_accepted(history: list[Operation]) -> None:
    assert is_linearizable(history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([op(CREATE, (0, 1), "a"), op(READ, (2, 3))], id="stale read"),
        pytest.param(
            [
                op(CREATE, (0, 1), "a"),
                op(UPDATE, (2, 9), "b", OK, "a"),
                op(READ, (3, 4), "b"),
                op(READ, (5, 6), "a"),
            ],
            id="new then old",
        ),
        pytest.param(
            [
                op(CREATE, (0, 1), "a"),
                op(UPDATE, (2, 5), "b", OK, "a"),
                op(UPDATE, (2, 5), "c", OK, "a"),
            ],
            id="lost update",
        ),
        pytest.param(
            [op(CREATE, (0, 1), "a"), op(CREATE, (2, 3), "b")], id="two creates of one name"
        ),
        pytest.param([op(CREATE, (0, 1), "a"), op(DELETE, (2, 3), None, ABSENT)], id="false 404"),
        pytest.param(
            [op(CREATE, (0, 1), "a"), op(UPDATE, (2, 3), "b", CONFLICT, "a")], id="false 409"
        ),
        pytest.param([op(CREATE, (0, 1), "a", EXISTS)], id="false AlreadyExists"),
        pytest.param(
            [
                op(CREATE, (0, 1), "a", UNKNOWN),
                op(READ, (2, 3), "a"),
                op(DELETE, (4, 5)),
                op(READ, (6, 7), "a"),
            ],
            id="unknown create executed twice",
        ),
        pytest.param([op(READ, (0, 1), "x")], id="value of nobody"),
    ],
)
def test_planted_fault_is_found(history: list[Operation]) -> None:
    assert not is_linearizable(history)
    assert set(violations(history)) == {"k"}


def simulated(seed: int, *, processes: int = 4, count: int = 60) -> list[Operation]:
    """Return a history of a real register: each operation takes effect within its span."""
    random_ = random.Random(seed)
    clocks = [random_.random() for _ in range(processes)]
    known: list[str | None] = [None] * processes
    state: str | None = None
    spans: list[tuple[float, float, float, int]] = []
    for number in range(count):
        process = number % processes
        start = clocks[process] + random_.random()
        moment, end = start + random_.random(), 0.0
        end = moment + random_.random()
        clocks[process] = end
        spans.append((moment, start, end, process))
    history: list[Operation] = []
    for number, (_, start, end, process) in enumerate(sorted(spans)):
        value = f"v{number}"
        kind = random_.choice([CREATE, UPDATE, UPDATE, DELETE, READ, READ])
        is_lost = random_.random() < 0.1
        if kind == READ:
            history.append(op(READ, (start, end), state))
            known[process] = state
            continue
        expected = known[process] if kind == UPDATE else None
        outcome, after = OK, state
        if kind == CREATE:
            outcome, after = (OK, value) if state is None else (EXISTS, state)
        elif kind == DELETE:
            outcome, after = (OK, None) if state is not None else (ABSENT, None)
        elif state is None:
            outcome = ABSENT
        elif state == expected:
            after = value
        else:
            outcome = CONFLICT
        if is_lost and random_.random() < 0.5:
            after = state
        state = after
        result = UNKNOWN if is_lost else outcome
        history.append(op(kind, (start, end), value, result, expected))
    return history


@pytest.mark.parametrize("seed", range(20))
def test_history_of_a_register_is_accepted(seed: int) -> None:
    assert is_linearizable(simulated(seed))


@pytest.mark.parametrize("seed", range(20))
def test_stale_read_in_a_long_history_is_found(seed: int) -> None:
    history = simulated(seed)
    last = max(item.end for item in history)
    written = [item.value for item in history if item.outcome == OK and item.kind == CREATE]
    # A create that is followed by another one was deleted in between.
    history.append(op(READ, (last + 1, last + 2), written[0]))
    history.append(op(READ, (last + 3, last + 4), "never"))
    assert not is_linearizable(history)


TRUTH = [
    Change("ADDED", "a", 5, "1"),
    Change("MODIFIED", "a", 6, "2"),
    Change("DELETED", "a", 9, "2"),
]


@pytest.mark.parametrize(
    ("seen", "problem"),
    [
        pytest.param(TRUTH, "", id="complete"),
        pytest.param([TRUTH[0], TRUTH[2]], "is lost", id="lost"),
        pytest.param(TRUTH[:2], "are lost", id="lost at the end"),
        pytest.param([TRUTH[0], TRUTH[0], *TRUTH[1:]], "is repeated", id="repeated"),
        pytest.param([*TRUTH, TRUTH[2]], "more than changes", id="repeated at the end"),
        pytest.param([TRUTH[1], TRUTH[0], TRUTH[2]], "is lost", id="out of order"),
        pytest.param([Change("ADDED", "a", 5, "x"), *TRUTH[1:]], "not Change", id="wrong value"),
    ],
)
def test_faults_of_watches_are_found(seen: list[Change], problem: str) -> None:
    found = watch_problem(TRUTH, seen, after=0)
    assert (problem in found) if problem else not found


def test_watch_is_compared_from_its_start() -> None:
    assert not watch_problem(TRUTH, TRUTH[1:], after=5)
