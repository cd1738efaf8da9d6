# SPDX-License-Identifier: Apache-2.0
"""Keys with a time to live."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.store.harness import Harness, LocalStore, Recorder, brief, held_writer, turn

from rdd.store import expiry
from rdd.store.contract import Put, StoreEvent, Unavailable
from rdd.store.sqlite.store import SqliteStore


async def live(local_store: LocalStore) -> list[str]:
    return [record.key for record in (await local_store.scan("")).records]


async def test_expired_key_is_deleted_with_an_event(
    local: Harness, local_store: LocalStore
) -> None:
    await local_store.commit([Put("/a", b"1", ttl_s=60)])
    recorder = Recorder(local_store)
    local.clock.now += 59
    assert await local_store.expire() == 0
    local.clock.now += 1
    assert await local_store.expire() == 1
    assert brief(recorder.events) == [("delete", "/a", b"", 2)]
    assert await live(local_store) == []


async def test_every_expired_key_is_removed_in_its_own_revision(
    local: Harness, local_store: LocalStore
) -> None:
    await local_store.commit([Put(f"/{n:03}", b"v", ttl_s=1) for n in range(300)])
    events: list[StoreEvent] = []
    local_store.observe(events.extend)
    local.clock.now += 2
    assert await local_store.expire() == 300
    assert [event.revision for event in events] == list(range(2, 302))


@pytest.mark.parametrize(
    ("renewal", "expected"),
    [
        pytest.param(Put("/a", b"2", ttl_s=60), ["/a"], id="new time to live"),
        pytest.param(Put("/a", b"2"), ["/a"], id="no time to live"),
        pytest.param(Put("/a", b"2", ttl_s=5), [], id="shorter time to live"),
    ],
)
async def test_write_renews_a_key(
    local: Harness, local_store: LocalStore, renewal: Put, expected: list[str]
) -> None:
    await local_store.commit([Put("/a", b"1", ttl_s=60)])
    local.clock.now += 30
    await local_store.commit([renewal])
    local.clock.now += 31
    await local_store.expire()
    assert await live(local_store) == expected


async def test_renewed_key_expires_in_the_end(local: Harness, local_store: LocalStore) -> None:
    for _ in range(2_000):
        await local_store.commit([Put("/a", b"1", ttl_s=60)], durable=False)
    local.clock.now += 60
    assert await local_store.expire() == 1


async def test_expiry_survives_a_restart(disk: Harness) -> None:
    store = await disk.open_local()
    await store.commit([Put("/a", b"1", ttl_s=60), Put("/b", b"1", ttl_s=120), Put("/c", b"1")])
    await store.close()
    disk.clock.now += 60
    again = await disk.open_local()
    assert await again.expire() == 1
    assert await live(again) == ["/b", "/c"]


async def test_timer_removes_expired_keys(
    local: Harness, local_store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "SHORTEST_WAIT_S", 0)
    recorder = Recorder(local_store)
    await local_store.commit([Put("/a", b"1", ttl_s=60), Put("/b", b"1", ttl_s=0.001)])
    local.clock.now += 1
    assert len(await recorder.wait_for(3)) == 3
    assert await live(local_store) == ["/a"]


async def test_earlier_expiry_moves_the_timer_forward(
    local: Harness, local_store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays: list[float] = []
    loop = asyncio.get_running_loop()
    original = loop.call_later

    def call_later(delay: float, *args: object) -> asyncio.TimerHandle:
        delays.append(delay)
        return original(delay, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_later", call_later)
    await local_store.commit([Put("/plain", b"1")])
    assert delays == [], "no timer while nothing can expire"
    await local_store.commit([Put("/day", b"1", ttl_s=86_400)])
    await local_store.commit([Put("/minute", b"1", ttl_s=60)])
    await local_store.commit([Put("/hour", b"1", ttl_s=3_600)])
    assert delays == [pytest.approx(expiry.LONGEST_WAIT_S), pytest.approx(60)]


async def test_key_renewed_during_its_removal_is_kept(sqlite_store: SqliteStore) -> None:
    clock = sqlite_store._options.clock
    await sqlite_store.commit([Put("/a", b"1", ttl_s=60)])
    clock.now += 61  # type: ignore[attr-defined]
    async with held_writer(sqlite_store):
        renewal = asyncio.ensure_future(sqlite_store.commit([Put("/a", b"2", ttl_s=60)]))
        await turn()
        assert await sqlite_store.expire() == 0
    await renewal
    assert await live(sqlite_store) == ["/a"]
    clock.now += 61  # type: ignore[attr-defined]
    assert await sqlite_store.expire() == 1


async def test_failed_removal_is_retried(
    local: Harness, local_store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await local_store.commit([Put("/a", b"1", ttl_s=60)])
    local.clock.now += 60

    async def fail(expired: Sequence[expiry.Expired]) -> int:
        raise Unavailable("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(local_store._expiry, "_remove", fail)
        with pytest.raises(Unavailable):
            await local_store.expire()
    assert await local_store.expire() == 1


async def test_failed_removal_by_the_timer_is_logged_and_retried_later(
    local: Harness,
    local_store: LocalStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(expiry, "SHORTEST_WAIT_S", 0)
    monkeypatch.setattr(expiry, "RETRY_S", 0)
    recorder = Recorder(local_store)
    remove = local_store._expiry._remove
    attempts = 0

    async def fail_once(expired: Sequence[expiry.Expired]) -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise Unavailable("disk full")
        return await remove(expired)

    monkeypatch.setattr(local_store._expiry, "_remove", fail_once)
    await local_store.commit([Put("/a", b"1", ttl_s=0.001)])
    local.clock.now += 1
    assert [event.type.value for event in await recorder.wait_for(2)] == ["put", "delete"]
    assert attempts == 2
    assert "expired keys could not be removed, will retry: disk full" in caplog.text
