# SPDX-License-Identifier: Apache-2.0
"""Fan-out to watchers: shared lines, bounded queues and slow clients."""

import uuid

import pytest

from rdd.apiserver.kinds.catalog import builtin_kinds
from rdd.apiserver.kinds.resources import make_resource
from rdd.apiserver.state import codec, watchers
from rdd.apiserver.state.cache import CacheEntry, ObjectCache
from rdd.apiserver.state.watchers import ObjectSelection, Watcher, Watchers
from rdd.store.contract import Put
from rdd.store.memory import MemoryStore

PREFIX = "/registry/configmaps/"


class Client:
    """The writer of one watch; it accepts data while `is_reading`."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.is_reading = True
        self.ends = 0

    async def write(self, data: bytes) -> None:
        self.received.append(data)

    def push(self, data: bytes) -> bool:
        self.received.append(data)
        return self.is_reading

    async def closed(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        self.ends += 1


class World:
    """ConfigMaps in a store, and their watchers."""

    def __init__(self, store: MemoryStore, cache: ObjectCache) -> None:
        (kind,) = (k for k in builtin_kinds() if k.plural == "configmaps")
        self.store = store
        self.resource = make_resource(kind, cache)
        self.hub = Watchers(self.resource)
        self.rendered = 0

    def render(self, type_: str, entry: CacheEntry) -> bytes:
        self.rendered += 1
        return f"{type_} {entry.name}@{entry.revision}\n".encode()

    def watch(self, *, after: int = 0, live: bool = True) -> tuple[Client, Watcher]:
        client = Client()
        watcher = Watcher(client, after, client.end)
        if live:
            watcher.backlog = None
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


async def test_slow_watcher_ends_and_the_others_continue(world: World) -> None:
    slow, lost = world.watch()
    fast, _ = world.watch()
    slow.is_reading = False
    for name in "abc":
        await world.put(name)
    assert lost.is_lost
    assert (slow.ends, fast.ends) == (1, 0)
    assert slow.received == [b"ADDED a@1\n"], "nothing is queued after the end"
    assert fast.received == [b"ADDED a@1\n", b"ADDED b@2\n", b"ADDED c@3\n"]


async def test_backlog_of_a_starting_watcher_is_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchers, "MAX_BEHIND_BYTES", 25)
    client, watcher = world.watch(live=False)
    await world.put("a")
    await world.put("b")
    assert watcher.backlog == [b"ADDED a@1\n", b"ADDED b@2\n"]
    assert client.received == []
    await world.put("c")
    assert (watcher.is_lost, watcher.backlog, client.ends) == (True, [], 1)
    await world.put("d")
    assert (watcher.backlog, client.ends) == ([], 1)


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
