# SPDX-License-Identifier: Apache-2.0
"""Fan-out to watchers: shared lines, bounded queues and slow clients."""

import asyncio
import uuid

import pytest

from rdd.apiserver.kinds.catalog import builtin_kinds
from rdd.apiserver.kinds.resources import make_resource
from rdd.apiserver.state import codec, lag, watchers
from rdd.apiserver.state.cache import ObjectCache
from rdd.apiserver.state.entries import CacheEntry
from rdd.apiserver.state.lag import LagBudget
from rdd.apiserver.state.selection import ObjectSelection
from rdd.apiserver.state.watchers import EventWatcher, Watcher, Watchers
from rdd.store.contract import Put
from rdd.store.memory import MemoryStore

PREFIX = "/registry/configmaps/"


class Client:
    """The writer of one watch; it accepts data while `is_reading`."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.is_reading = True
        self.ends = 0
        self.lags = 0
        self.reads = asyncio.Event()

    async def write(self, data: bytes) -> None:
        if data:
            self.received.append(data)
        if not self.is_reading:
            await self.reads.wait()

    def push(self, data: bytes) -> bool:
        self.received.append(data)
        return self.is_reading

    async def closed(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self.ends += 1

    def lag(self) -> None:
        self.lags += 1

    def read(self) -> None:
        self.is_reading = True
        self.reads.set()


class World:
    """ConfigMaps in a store, and their watchers."""

    def __init__(self, store: MemoryStore, cache: ObjectCache) -> None:
        (kind,) = (k for k in builtin_kinds() if k.plural == "configmaps")
        self.store = store
        self.resource = make_resource(kind, cache)
        self.budget = LagBudget()
        self.hub = Watchers(self.resource, self.budget)
        self.rendered = 0

    def render(self, type_: str, entry: CacheEntry) -> bytes:
        self.rendered += 1
        return f"{type_} {entry.name}@{entry.revision}\n".encode()

    def watch(self, *, after: int = 0, live: bool = True) -> tuple[Client, Watcher]:
        client = Client()
        watcher = Watcher(client, after, client.end, on_lag=client.lag, budget=self.budget)
        watcher.is_live = live
        selection = ObjectSelection(None, None, None, resource=self.resource)
        self.hub.join("all", selection, self.render, watcher)
        return client, watcher

    async def put(self, *names: str) -> int:
        return await self.store.commit(
            [
                Put(
                    f"{PREFIX}ns/{name}",
                    codec.encode({"metadata": {"name": name, "uid": str(uuid.uuid4())}}),
                )
                for name in names
            ]
        )


@pytest.fixture
async def world() -> World:
    store = MemoryStore()
    cache = ObjectCache(store)
    await cache.load()
    return World(store, cache)


async def test_batch_is_rendered_once_for_all_watchers_of_a_view(world: World) -> None:
    clients = [world.watch()[0] for _ in range(3)]
    await world.put("a", "b")
    assert [client.received for client in clients] == [[b"ADDED a@1\nADDED b@1\n"]] * 3
    assert world.rendered == 2


async def test_slow_watcher_lags_and_catches_up(world: World) -> None:
    slow, watcher = world.watch()
    fast, _ = world.watch()
    slow.is_reading = False
    for name in "abc":
        await world.put(name)
    assert (slow.lags, slow.ends, fast.lags) == (1, 0, 0)
    assert slow.received == [b"ADDED a@1\n"], "the rest is queued by reference"
    assert world.budget.total == watcher.lag_bytes == 20
    catching_up = asyncio.ensure_future(watcher.catch_up())
    await asyncio.sleep(0)
    assert not catching_up.done()
    slow.read()
    assert await catching_up
    assert slow.received == fast.received == [b"ADDED a@1\n", b"ADDED b@2\n", b"ADDED c@3\n"]
    assert (world.budget.total, world.budget.watchers, watcher.lag_bytes) == (0, 0, 0)


async def test_queue_of_a_watcher_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "MAX_LAG_BYTES", 25)
    client, watcher = world.watch(live=False)
    other, _ = world.watch()
    await world.put("a")
    await world.put("b")
    await world.put("c")
    assert watcher.lag_bytes == 30
    assert client.received == []
    await world.put("d")
    assert (watcher.is_lost, watcher.lag_bytes, client.ends) == (True, 0, 1)
    await world.put("e")
    assert (watcher.lag_bytes, client.ends) == (0, 1)
    assert world.budget.total == 0
    assert (len(other.received), other.ends) == (5, 0)


async def test_batch_that_many_watchers_queue_counts_once(world: World) -> None:
    waiting = [world.watch(live=False) for _ in range(300)]
    await world.put("a")
    batches = {id(watcher._queue[0].data) for _, watcher in waiting}
    assert len(batches) == 1
    assert (world.budget.total, world.budget.watchers) == (10, 300)
    for _, watcher in waiting:
        world.hub.leave("all", watcher)
    assert (world.budget.total, world.budget.watchers) == (0, 0)


async def test_slowest_watchers_are_closed_first_when_the_total_is_exceeded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag, "TOTAL_BYTES", 35)
    slowest, _ = world.watch(live=False)
    await world.put("a")
    await world.put("b")
    slow, watcher = world.watch(live=False)
    live, _ = world.watch()
    await world.put("c")
    assert (slowest.ends, slow.ends) == (0, 0)
    await world.put("d")
    assert (slowest.ends, slow.ends, live.ends) == (1, 0, 0)
    assert world.budget.total == watcher.lag_bytes == 20
    assert world.budget.closed == 1


async def test_large_batch_is_written_in_pieces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "PIECE_BYTES", 4)
    client, watcher = world.watch()
    client.is_reading = False
    await world.put("a")
    assert (client.received, client.lags) == ([b"ADDE"], 1)
    catching_up = asyncio.ensure_future(watcher.catch_up())
    await asyncio.sleep(0)
    client.read()
    assert await catching_up
    assert client.received == [b"ADDE", b"D a@", b"1\n"]


@pytest.mark.parametrize(("budget", "rest"), [(100, [b"D a@", b"1\n"]), (30, [])])
async def test_closed_watcher_completes_its_line_if_the_budget_allows(
    world: World, monkeypatch: pytest.MonkeyPatch, budget: int, rest: list[bytes]
) -> None:
    monkeypatch.setattr(watchers, "PIECE_BYTES", 4)
    monkeypatch.setattr(lag, "TOTAL_BYTES", budget)
    client, watcher = world.watch()
    client.is_reading = False
    await world.put("a")
    await world.put("b")
    catching_up = asyncio.ensure_future(watcher.catch_up())
    await asyncio.sleep(0)
    watcher.lose()
    assert watcher.completes_a_line == bool(rest)
    if rest:
        client.read()
    else:
        catching_up.cancel()
    assert await watcher.finish(catching_up) == bool(rest)
    assert client.received == [b"ADDE", *rest]
    assert (client.ends, world.budget.total, world.budget._finishing) == (1, 0, 0)


async def test_reader_in_this_process_gets_the_bytes_of_the_cache(world: World) -> None:
    class Reader(Client):
        def __init__(self) -> None:
            super().__init__()
            self.events: list[tuple[str, bytes, bytes]] = []

        def push_event(self, type_: str, head: bytes, body: bytes) -> bool:
            self.events.append((type_, head, body))
            return True

    reader = Reader()
    watcher = EventWatcher(reader, 0, reader.end)
    watcher.is_live = True
    selection = ObjectSelection(None, None, None, resource=world.resource)
    world.hub.join("here", selection, lambda t, e: (t, *world.resource.parts(e)), watcher)
    await world.put("a")
    ((type_, head, body),) = reader.events
    entry = world.resource.cache.get("ns", "a")
    assert entry is not None
    assert (type_, body is entry.body, head) == ("ADDED", True, world.resource.head)


async def test_watcher_receives_only_changes_after_its_start(world: World) -> None:
    client, _ = world.watch(after=2)
    for name in "abc":
        await world.put(name)
    assert client.received == [b"ADDED c@3\n"]


async def test_watcher_that_starts_inside_a_batch_receives_the_rest(world: World) -> None:
    client, _ = world.watch(after=1)
    view = world.hub.views["all"]
    for name in "ab":
        await world.put(name)
    client.received.clear()
    view.deliver(list(world.resource.cache.ring))
    assert client.received == [b"ADDED b@2\n"]


async def test_closing_ends_all_watchers_without_an_error(world: World) -> None:
    client, watcher = world.watch()
    world.hub.close()
    assert (client.ends, watcher.was_withdrawn) == (1, True)
    await world.put("a")
    assert client.received == []


async def test_view_without_watchers_is_dropped(world: World) -> None:
    _, first = world.watch()
    _, second = world.watch()
    world.hub.leave("all", first)
    world.hub.leave("all", first)
    assert world.hub.views["all"].watchers == [second]
    world.hub.leave("all", second)
    assert world.hub.views == {}
