# SPDX-License-Identifier: Apache-2.0
"""Linearizability of recorded histories, object by object (Wing and Gong, with memory).

An object is a register: absent, or one value; every write has a value of its own, so a value
identifies the write. A history is linearizable if every operation can take effect at one moment
between its start and its end so that the results are those of one register. An operation whose
outcome is unknown (a lost connection, 503) may have taken effect at any time after its start, or
never.

The search takes any operation that started before every other pending one has ended, applies
it, and continues; states it has seen (the set of applied operations and the value) are not
searched again.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

CREATE, UPDATE, DELETE, READ = "create", "update", "delete", "read"
OK, EXISTS, CONFLICT, ABSENT, UNKNOWN = "ok", "exists", "conflict", "absent", "unknown"


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a client and its result."""

    key: str
    kind: str
    outcome: str
    start: float
    end: float
    value: str | None = None
    """What was written, or read (None: absent)."""
    expected: str | None = None
    """The value that an update replaces."""

    @property
    def ends(self) -> float:
        return math.inf if self.outcome == UNKNOWN else self.end


class TooComplex(Exception):
    """The search was given up."""


def _results(state: str | None, op: Operation) -> Iterator[str | None]:
    """Yield the states that an operation may leave, none if its result is impossible."""
    if op.kind == READ:
        if op.value == state:
            yield state
        return
    applies = {
        CREATE: state is None,
        UPDATE: state is not None and state == op.expected,
        DELETE: state is not None,
    }[op.kind]
    after = None if op.kind == DELETE else op.value
    if op.outcome in (OK, UNKNOWN) and applies:
        yield after
    if (
        op.outcome == UNKNOWN
        or (op.outcome == EXISTS and op.kind == CREATE and state is not None)
        or (op.outcome == CONFLICT and op.kind == UPDATE and state not in (None, op.expected))
        or (op.outcome == ABSENT and op.kind != CREATE and state is None)
    ):
        yield state


def is_linearizable(history: Sequence[Operation], *, max_states: int = 2_000_000) -> bool:
    """Return whether the operations of one object are linearizable. Raises TooComplex."""
    ops = sorted(history, key=lambda op: op.start)
    # An unknown operation that never took effect need not be placed.
    required = sum(1 << i for i, op in enumerate(ops) if op.outcome != UNKNOWN)
    seen: set[tuple[int, str | None]] = set()
    stack: list[tuple[int, str | None]] = [(0, None)]
    while stack:
        done, state = stack.pop()
        if done & required == required:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if len(seen) > max_states:
            raise TooComplex(f"{len(seen)} states of {len(ops)} operations")
        limit = math.inf
        unknown: list[tuple[int, str | None]] = []
        known: list[tuple[int, str | None]] = []
        has_delete = False
        first = (~done & (done + 1)).bit_length() - 1
        for i in range(first, len(ops)):
            if done >> i & 1:
                continue
            op = ops[i]
            if op.start > limit:
                break
            if op.outcome == UNKNOWN and op.kind == DELETE:
                if has_delete:
                    continue  # the one that started earlier can take its place
                has_delete = True
            found = unknown if op.outcome == UNKNOWN else known
            # That an unknown operation has no effect needs no step: it is not required.
            found += (
                (done | 1 << i, after)
                for after in _results(state, op)
                if op.outcome != UNKNOWN or after != state
            )
            limit = min(limit, op.ends)
        stack += unknown
        stack += known  # tried first: most unknown operations had no effect
    return False


def violations(history: Iterable[Operation]) -> dict[str, list[Operation]]:
    """Return the objects whose histories are not linearizable."""
    by_key: defaultdict[str, list[Operation]] = defaultdict(list)
    for op in history:
        by_key[op.key].append(op)
    return {
        key: sorted(ops, key=lambda op: op.start)
        for key, ops in by_key.items()
        if not is_linearizable(ops)
    }


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch."""

    type: str
    name: str
    revision: int
    value: str | None


def watch_problem(truth: Sequence[Change], seen: Sequence[Change], *, after: int) -> str:
    """Return how a resumed watch differs from what happened after a revision; empty if not."""
    expected = [change for change in truth if change.revision > after]
    for position, (wanted, found) in enumerate(zip(expected, seen, strict=False)):
        if wanted == found:
            continue
        if found in seen[:position]:
            return f"event {position} is repeated: {found}"
        if found in expected[position:]:
            return f"event {position} is lost: {wanted}"
        return f"event {position} is {found}, not {wanted}"
    if len(seen) > len(expected):
        return f"{len(seen) - len(expected)} events more than changes: {seen[len(expected)]}"
    if len(seen) < len(expected):
        return f"{len(expected) - len(seen)} events are lost: {expected[len(seen)]}"
    return ""
