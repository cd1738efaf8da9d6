# SPDX-License-Identifier: Apache-2.0
"""Random histories of both stores, compared with a trivial model.

The model is the list of all events. Every result of a store must equal the one
computed from that list, across compactions, expiry, restarts and crashes.
"""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.unit.store.harness import Harness, LocalStore, crash_copy, read_history

from rdd.store.contract import (
    ABSENT,
    ANY,
    CompareFailed,
    Delete,
    EventType,
    KeyValue,
    Op,
    Put,
    StoreEvent,
)
from rdd.store.sqlite import reader
from rdd.store.sqlite.store import SqliteStore

T = TypeVar("T")

KEYS = st.sampled_from(["/a", "/a/b", "/a/c", "/b", "/é", "/ü\0"])
VALUES = st.binary(max_size=8)
EXPECT = st.sampled_from(["any", "absent", "current", "current", "wrong"])


class StoreMachine(RuleBasedStateMachine):
    kind = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.directory = Path(tempfile.mkdtemp(prefix="rdd-store-"))
        self.harness = Harness(self.kind, self.directory)
        self.observed: list[StoreEvent] = []
        self.events: list[StoreEvent] = []
        self.expiry: dict[str, float] = {}
        self.crashes = itertools.count()
        self.ceiling = 0  # no revision at or below this may be assigned again
        self.store: LocalStore

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    @initialize(chunk_events=st.sampled_from([1, 3, 512]))
    def open(self, chunk_events: int) -> None:
        self.chunks = mock.patch.object(reader, "CHUNK_EVENTS", chunk_events)
        self.chunks.start()
        self._open()

    def _open(self) -> None:
        self.store = self.run(self.harness.open_local())
        self.store.observe(self.observed.extend)

    def state(self, revision: int | None = None) -> dict[str, KeyValue]:
        found: dict[str, KeyValue] = {}
        for event in self.events:
            if revision is not None and event.revision > revision:
                break
            if event.type is EventType.DELETE:
                del found[event.key]
            else:
                found[event.key] = KeyValue(event.key, event.value, event.revision, event.created)
        return found

    @rule(
        parts=st.lists(
            st.tuples(KEYS, st.none() | VALUES, EXPECT, st.sampled_from([0, 0, 5, 50])),
            max_size=4,
            unique_by=lambda part: part[0],
        ),
        durable=st.booleans(),
    )
    def commit(self, parts: list[tuple[str, bytes | None, str, int]], durable: bool) -> None:
        before, revision = self.state(), self.store.revision
        ops: list[Op] = []
        expected: list[StoreEvent] = []
        fails = False
        for key, value, how, ttl_s in parts:
            record = before.get(key)
            current = record.revision if record else 0
            expect = {
                "any": ANY,
                "absent": ABSENT,
                "current": current,
                "wrong": current + 1,
            }[how]
            hint = record.value if record and how == "current" else None
            if value is None:
                ops.append(Delete(key, expect, hint))
                fails |= expect != ANY and (expect != current or not current)
                if record is None:
                    continue
            else:
                ops.append(Put(key, value, expect, ttl_s, hint))
                fails |= expect not in (ANY, current)
            expected.append(
                StoreEvent(
                    EventType.DELETE if value is None else EventType.PUT,
                    key,
                    value or b"",
                    revision + 1,
                    record.created if record else revision + 1,
                    record.value if record else None,
                    current,
                )
            )
        if fails:
            with pytest.raises(CompareFailed):
                self.run(self.store.commit(ops, durable=durable))
            return
        result = self.run(self.store.commit(ops, durable=durable))
        if not expected:
            assert result == revision
            return
        assert result == revision + 1 > self.ceiling
        self.ceiling = result
        self.events += expected
        for op in ops:
            self.expiry.pop(op.key, None)
            if isinstance(op, Put) and op.ttl_s:
                self.expiry[op.key] = self.harness.clock.now + op.ttl_s

    @rule(seconds=st.sampled_from([1, 5, 45]))
    def time_passes(self, seconds: int) -> None:
        self.harness.clock.now += seconds
        due = {key for key, at in self.expiry.items() if at <= self.harness.clock.now}
        before, known = self.state(), len(self.observed)
        self.run(self.store.expire())
        removed = self.observed[known:]
        assert {event.key for event in removed} == due
        for event in removed:
            record = before[event.key]
            self.ceiling += 1
            assert event == StoreEvent(
                EventType.DELETE,
                event.key,
                b"",
                self.ceiling,
                record.created,
                record.value,
                record.revision,
            )
            del self.expiry[event.key]
        self.events += removed

    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        revision = round(self.store.revision * share)
        expected = max(revision, self.store.compacted)
        self.run(self.store.compact(revision))
        assert self.store.compacted == expected

    @rule(share=st.floats(0, 1), prefix=st.sampled_from(["", "/a", "/a/", "/é"]))
    def read_an_old_revision(self, share: float, prefix: str) -> None:
        oldest, newest = self.store.compacted, self.store.revision
        revision = oldest + round((newest - oldest) * share)
        if revision == 0:
            return
        wanted = sorted(
            (r for k, r in self.state(revision).items() if k.startswith(prefix)),
            key=lambda record: record.key,
        )
        assert self.run(self.store.scan(prefix, revision=revision)).records == wanted
        for record in wanted:
            assert self.run(self.store.get(record.key, revision=revision)) == record

    @rule(limit=st.integers(1, 3))
    def read_the_current_revision_in_pages(self, limit: int) -> None:
        found: list[KeyValue] = []
        after, more = "", True
        while more:
            page = self.run(self.store.scan("", after=after, limit=limit))
            found += page.records
            after, more = (found[-1].key if found else ""), page.more
        assert {record.key: record for record in found} == self.state()
        assert found == sorted(found, key=lambda record: record.key)

    @rule(share=st.floats(0, 1), prefix=st.sampled_from(["", "/a"]))
    def read_the_history(self, share: float, prefix: str) -> None:
        oldest, newest = self.store.compacted, self.store.revision
        after = oldest + round((newest - oldest) * share)
        wanted = [e for e in self.events if e.revision > after and e.key.startswith(prefix)]
        assert self.run(read_history(self.store, prefix, after)) == wanted

    @precondition(lambda self: self.kind == "sqlite")
    @rule()
    def restart(self) -> None:
        revision = self.store.revision
        self.run(self.store.close())
        self._open()
        assert self.store.revision == revision

    @precondition(lambda self: self.kind == "sqlite")
    @rule()
    def crash(self) -> None:
        assert isinstance(self.store, SqliteStore)
        revision = self.store.revision
        old = self.harness.path
        self.harness.directory = self.directory / str(next(self.crashes))
        self.run(crash_copy(self.store, old, self.harness.path))
        self.run(self.store.close())
        self._open()
        assert self.store.revision >= revision
        self.ceiling = self.store.revision

    @invariant()
    def observers_saw_everything(self) -> None:
        assert self.observed == self.events

    def teardown(self) -> None:
        self.chunks.stop()
        self.run(self.harness.close())
        self.loop.close()
        shutil.rmtree(self.directory)


class SqliteMachine(StoreMachine):
    kind = "sqlite"


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    ("machine", "examples"),
    [pytest.param(StoreMachine, 60, id="memory"), pytest.param(SqliteMachine, 20, id="sqlite")],
)
def test_random_histories_match_the_model(
    machine: type[StoreMachine], examples: int, soak: bool
) -> None:
    examples *= 50 if soak else 1
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples, stateful_step_count=30, deadline=None)
    )
