# SPDX-License-Identifier: Apache-2.0
"""The contract of contract.py, for all implementations."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.store.harness import AnyStore, LocalStore

from rdd.store.contract import (
    ABSENT,
    ANY,
    Check,
    CompareFailed,
    Delete,
    EventType,
    FutureRevision,
    KeyValue,
    Op,
    Put,
    Store,
    StoreEvent,
    Unavailable,
)
from rdd.store.etcd.store import EtcdStore
from rdd.store.keys import MAX_OPS
from rdd.store.memory import MemoryStore
from rdd.store.sqlite.store import SqliteStore


async def test_implementations_are_stores(store: AnyStore) -> None:
    as_store: Store = store
    assert as_store.revision == 0
    assert as_store.compacted == 0


async def test_commits_are_numbered_from_one_without_gap(store: AnyStore) -> None:
    assert [await store.commit([Put(f"/{n}", b"v")]) for n in range(3)] == [1, 2, 3]
    assert store.revision == 3


async def test_record_has_the_revisions_of_creation_and_last_change(store: AnyStore) -> None:
    await store.commit([Put("/a", b"1")])
    await store.commit([Put("/b", b"1")])
    await store.commit([Put("/a", b"2")])
    assert await store.get("/a") == KeyValue("/a", b"2", revision=3, created=1)


async def test_key_created_again_after_a_delete_has_a_new_creation_revision(
    store: AnyStore,
) -> None:
    await store.commit([Put("/a", b"1")])
    await store.commit([Delete("/a")])
    await store.commit([Put("/a", b"2", expect=ABSENT)])
    assert await store.get("/a") == KeyValue("/a", b"2", revision=3, created=3)


async def test_all_operations_of_a_transaction_share_one_revision(store: AnyStore) -> None:
    await store.commit([Put("/old", b"x")])
    revision = await store.commit([Put("/a", b"1"), Delete("/old"), Put("/b", b"2")])
    page = await store.scan("/")
    assert [(r.key, r.revision) for r in page.records] == [("/a", revision), ("/b", revision)]


@pytest.mark.parametrize(
    ("op", "current"),
    [
        pytest.param(Put("/a", b"2", expect=ABSENT), 1, id="create of a live key"),
        pytest.param(Put("/a", b"2", expect=7), 1, id="update at another revision"),
        pytest.param(Put("/b", b"2", expect=1), 0, id="update of a key that is not live"),
        pytest.param(Delete("/a", expect=7), 1, id="delete at another revision"),
        pytest.param(Delete("/b", expect=1), 0, id="delete of a key that is not live"),
        pytest.param(Delete("/b", expect=ABSENT), 0, id="delete of a key expected to be absent"),
        pytest.param(Delete("/a", expect=ABSENT), 1, id="delete of a live key expected absent"),
    ],
)
async def test_failed_comparison_writes_nothing_and_reports_the_current_revision(
    store: AnyStore, op: Op, current: int
) -> None:
    await store.commit([Put("/a", b"1")])
    with pytest.raises(CompareFailed) as failure:
        await store.commit([Put("/c", b"3"), op])
    assert (failure.value.key, failure.value.expected) == (op.key, op.expect)
    assert (failure.value.current, failure.value.pending) == (current, False)
    assert str(failure.value) == f"{op.key}: expected revision {op.expect}, found {current}"
    assert store.revision == 1
    assert [record.key for record in (await store.scan("/")).records] == ["/a"]
    assert await store.commit([Put("/c", b"3")]) == 2


async def test_matching_expectations_succeed(store: AnyStore) -> None:
    created = await store.commit([Put("/a", b"1", expect=ABSENT)])
    updated = await store.commit([Put("/a", b"2", expect=created)])
    await store.commit([Delete("/a", expect=updated)])
    assert await store.get("/a") is None


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([], id="no operation"),
        pytest.param([Delete("/none")], id="delete of nothing"),
        pytest.param([Delete("/none"), Delete("/more")], id="deletes of nothing"),
    ],
)
async def test_commit_that_changes_nothing_returns_the_current_revision(
    store: AnyStore, ops: list[Op]
) -> None:
    await store.commit([Put("/a", b"1")])
    assert await store.commit(ops) == 1
    assert store.revision == 1


async def test_ignored_delete_does_not_affect_other_operations(store: AnyStore) -> None:
    batches: list[Sequence[StoreEvent]] = []
    store.observe(batches.append)
    await store.commit([Delete("/none"), Put("/a", b"1")])
    assert [[event.key for event in batch] for batch in batches] == [["/a"]]


@pytest.mark.parametrize(
    ("ops", "message"),
    [
        pytest.param([Put("/a", b"1"), Put("/a", b"2")], "occurs twice", id="key twice"),
        pytest.param([Put("", b"1")], "must not be empty", id="empty key"),
        pytest.param([Put("/\ud800", b"1")], "surrogates not allowed", id="lone surrogate"),
        pytest.param(
            [Put(f"/{n}", b"") for n in range(MAX_OPS + 1)],
            "in one transaction, at most",
            id="too many",
        ),
    ],
)
async def test_invalid_transaction_is_rejected_without_effect(
    store: AnyStore, ops: list[Op], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        await store.commit(ops)
    assert store.revision == 0
    assert await store.commit([Put("/a", b"1", expect=ABSENT)]) == 1


async def test_largest_transaction_is_one_revision(local_store: LocalStore) -> None:
    assert await local_store.commit([Put(f"/{n:04}", b"v") for n in range(MAX_OPS)]) == 1
    page = await local_store.scan("/")
    assert len(page.records) == MAX_OPS
    assert {record.revision for record in page.records} == {1}


async def test_check_compares_another_key_without_changing_it(store: AnyStore) -> None:
    first = await store.commit([Put("/lease", b"a")])
    await store.commit([Put("/object", b"1"), Check("/lease", first)])
    second = await store.commit([Put("/lease", b"b")])
    with pytest.raises(CompareFailed) as failed:
        await store.commit([Put("/object", b"2"), Check("/lease", first)])
    assert (failed.value.key, failed.value.current) == ("/lease", second)
    with pytest.raises(CompareFailed):
        await store.commit([Put("/object", b"2"), Check("/missing", 1)])
    found = await store.get("/object")
    lease = await store.get("/lease")
    assert found is not None and found.value == b"1"
    assert lease is not None and lease.revision == second
    assert await store.commit([Check("/lease", second)]) == second


async def test_check_includes_writes_in_flight(local_store: LocalStore) -> None:
    first = await local_store.commit([Put("/lease", b"a")])
    taking = asyncio.ensure_future(local_store.commit([Put("/lease", b"b")]))
    await asyncio.sleep(0)
    with pytest.raises(CompareFailed):
        await local_store.commit([Put("/object", b"1"), Check("/lease", first)])
    await taking
    assert await local_store.get("/object") is None


async def test_of_commits_called_together_only_one_creates(store: AnyStore) -> None:
    outcomes = await asyncio.gather(
        *(store.commit([Put("/a", b"%d" % n, expect=ABSENT)]) for n in range(8)),
        return_exceptions=True,
    )
    winner = outcomes.index(1)
    lost = [outcome for outcome in outcomes if isinstance(outcome, CompareFailed)]
    assert [failed.current for failed in lost] == [1] * 7
    record = await store.get("/a")
    assert record is not None
    assert record.value == b"%d" % winner


async def test_the_first_of_commits_called_together_creates(local_store: LocalStore) -> None:
    outcomes = await asyncio.gather(
        *(local_store.commit([Put("/a", b"%d" % n, expect=ABSENT)]) for n in range(8)),
        return_exceptions=True,
    )
    assert outcomes[0] == 1


async def test_concurrent_commits_of_different_keys_all_succeed_in_order(
    local_store: LocalStore,
) -> None:
    revisions = await asyncio.gather(
        *(local_store.commit([Put(f"/{n}", b"v")]) for n in range(200))
    )
    assert revisions == list(range(1, 201))


async def test_values_are_opaque_bytes(store: AnyStore) -> None:
    values = {"/empty": b"", "/zero": b"\0" * 5, "/large": bytes(range(256)) * 6_000}
    await store.commit([Put(key, value) for key, value in values.items()])
    assert {r.key: r.value for r in (await store.scan("")).records} == values


async def test_keys_sort_by_code_point(store: AnyStore) -> None:
    keys = ["/a", "/a\0", "/a/b", "/a0", "/é", "/\ud7ff", "/\ue000", "/😀", "/\U0010ffff", "zz"]
    await store.commit([Put(key, b"v") for key in reversed(keys)])
    assert [record.key for record in (await store.scan("")).records] == sorted(keys)


@pytest.mark.parametrize(
    ("prefix", "after", "limit", "found", "more"),
    [
        pytest.param("/a/", "", 0, ["/a/1", "/a/2", "/a/3"], False, id="all of a prefix"),
        pytest.param("/a/", "", 2, ["/a/1", "/a/2"], True, id="first page"),
        pytest.param("/a/", "/a/2", 2, ["/a/3"], False, id="last page"),
        pytest.param("/a/", "", 3, ["/a/1", "/a/2", "/a/3"], False, id="exactly the limit"),
        pytest.param("/a/", "/a/3", 0, [], False, id="after the last"),
        pytest.param("/a/", "/", 1, ["/a/1"], True, id="after sorts before the prefix"),
        pytest.param("/a/", "/b", 0, [], False, id="after sorts past the prefix"),
        pytest.param("/a/1", "", 0, ["/a/1"], False, id="a prefix may be a key"),
        pytest.param("/z", "", 0, [], False, id="nothing"),
        pytest.param("", "/a0", 0, ["/b/1"], False, id="everything after a key"),
    ],
)
async def test_scan_returns_ordered_pages(
    store: AnyStore, prefix: str, after: str, limit: int, found: list[str], more: bool
) -> None:
    for key in ("/b/1", "/a/3", "/a/gone", "/a/1", "/a/2", "/a0"):
        await store.commit([Put(key, b"v")])
    await store.commit([Delete("/a/gone")])
    page = await store.scan(prefix, after=after, limit=limit)
    assert [record.key for record in page.records] == found
    assert (page.more, page.revision) == (more, 7)


async def test_old_revisions_can_be_read(store: AnyStore) -> None:
    await store.commit([Put("/a", b"1")])
    await store.commit([Put("/a", b"2"), Put("/b", b"2")])
    await store.commit([Delete("/a")])
    await store.commit([Put("/a", b"4")])
    seen = {
        revision: [(r.value, r.revision, r.created) for r in page.records]
        for revision in (1, 2, 3, 4)
        for page in [await store.scan("/", revision=revision)]
    }
    assert seen == {
        1: [(b"1", 1, 1)],
        2: [(b"2", 2, 1), (b"2", 2, 2)],
        3: [(b"2", 2, 2)],
        4: [(b"4", 4, 4), (b"2", 2, 2)],
    }
    assert await store.get("/a", revision=3) is None
    assert await store.get("/a", revision=2) == KeyValue("/a", b"2", 2, 1)


async def test_future_revisions_cannot_be_read(store: AnyStore) -> None:
    await store.commit([Put("/a", b"1")])
    message = "revision 2 is in the future, the newest is 1"
    with pytest.raises(FutureRevision, match=message):
        await store.scan("/", revision=2)
    with pytest.raises(FutureRevision, match=message):
        await store.get("/a", revision=2)
    with pytest.raises(FutureRevision, match=message):
        await store.history("/", 2)
    with pytest.raises(FutureRevision, match=message):
        await store.compact(2)


async def test_observers_get_every_event_before_the_commit_returns(store: AnyStore) -> None:
    def seen(previous: bytes) -> bytes | None:
        return None if store.is_distributed else previous

    events: list[StoreEvent] = []
    stop = store.observe(events.extend)
    await store.commit([Put("/a", b"1")])
    assert len(events) == 1
    await store.commit([Put("/a", b"2")])
    await store.commit([Delete("/a")])
    assert events == [
        StoreEvent(EventType.PUT, "/a", b"1", 1, 1, None, 0),
        StoreEvent(EventType.PUT, "/a", b"2", 2, 1, seen(b"1"), 1),
        StoreEvent(EventType.DELETE, "/a", b"", 3, 1, seen(b"2"), 2),
    ]
    stop()
    stop()
    await store.commit([Put("/a", b"4")])
    assert len(events) == 3


async def test_observer_sees_the_revision_of_its_batch(store: AnyStore) -> None:
    seen: list[int] = []
    store.observe(lambda events: seen.append(store.revision - events[-1].revision))
    await asyncio.gather(*(store.commit([Put(f"/{n}", b"v")]) for n in range(20)))
    assert set(seen) == {0}


async def test_failing_observer_does_not_affect_others(
    store: AnyStore, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(events: Sequence[StoreEvent]) -> None:
        raise ZeroDivisionError

    events: list[StoreEvent] = []
    store.observe(broken)
    store.observe(events.extend)
    assert await store.commit([Put("/a", b"1")]) == 1
    assert len(events) == 1
    assert "an observer of the store failed at revision" in caplog.text


@pytest.mark.parametrize("expect", [ANY, 1])
async def test_previous_value_is_read_when_no_hint_is_given(store: AnyStore, expect: int) -> None:
    events: list[StoreEvent] = []
    await store.commit([Put("/a", b"1")])
    store.observe(events.extend)
    await store.commit([Put("/a", b"2", expect=expect)])
    expected = None if store.is_distributed else b"1"
    assert (events[0].previous, events[0].previous_revision) == (expected, 1)
    assert [event.previous for event in (await store.history("/", 0)).events] == [None, b"1"]


async def test_previous_hint_is_used_only_with_an_expected_revision(
    local_store: LocalStore,
) -> None:
    events: list[StoreEvent] = []
    await local_store.commit([Put("/a", b"1")])
    local_store.observe(events.extend)
    hint = b"hint"
    await local_store.commit([Put("/a", b"2", expect=1, previous=hint)])
    await local_store.commit([Put("/a", b"3", previous=hint)])
    await local_store.commit([Put("/b", b"4", expect=ABSENT, previous=hint)])
    await local_store.commit([Delete("/a", expect=3, previous=hint)])
    assert [event.previous for event in events] == [hint, b"2", None, hint]
    assert events[0].previous is hint


async def test_nothing_is_in_flight_after_a_commit(store: AnyStore) -> None:
    await store.commit([Put("/a", b"1")])
    await store.settled("/a")
    await store.settled("/never")


async def test_relaxed_commit_is_visible_like_any_other(store: AnyStore) -> None:
    assert await store.commit([Put("/a", b"1")], durable=False) == 1
    assert await store.get("/a") == KeyValue("/a", b"1", 1, 1)


async def test_closed_store_rejects_calls_and_can_be_closed_again(
    store: AnyStore, tmp_path: Path
) -> None:
    await store.commit([Put("/a", b"1")])
    await store.close()
    await store.close()
    with pytest.raises(Unavailable, match="the store is closed"):
        await store.commit([Put("/a", b"2")])
    for refused in (
        store.get("/a"),
        store.scan("/"),
        store.compact(1),
        store.history("/", 0),
        store.backup(tmp_path),
    ):
        with pytest.raises(Unavailable, match="the store is closed"):
            await refused


async def test_implementations_have_the_same_public_names() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    assert names(SqliteStore) - {"open"} == names(MemoryStore)
    assert names(Store) == names(MemoryStore) - {"expire"}
    assert names(Store) == names(EtcdStore) - {"open"}
