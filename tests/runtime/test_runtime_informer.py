# SPDX-License-Identifier: Apache-2.0
"""Informers on a real server: reading, notifying, recovering from lost watches."""

import asyncio
from typing import Any

import pytest
from tests.runtime.runtime_world import World, until

from rdd.api import errors
from rdd.apiserver.http.request import AnyResponse, Request, Stream
from rdd.apiserver.state import watchers
from rdd.client import ApiResource
from rdd.client.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from rdd.runtime import Cache, Change, ObjectKey, informer

pytestmark = pytest.mark.looptime

DEFAULT: dict[str, Any] = {
    "namespace": "default",
    "field_selector": "metadata.name!=kube-root-ca.crt",
}


class Received:
    """The changes that handlers received, in short form."""

    def __init__(self) -> None:
        self.changes: list[str] = []

    def __call__(self, change: Change) -> None:
        sign = "+" if change.old is None else "-" if change.new is None else "~"
        self.changes.append(sign + change.key.name)


def key(name: str) -> ObjectKey:
    return ObjectKey("default", name)


async def test_lists_objects_and_applies_changes(world: World) -> None:
    await world.create("a", data={"v": "1"})
    cache, received = Cache(world.client), Received()
    maps = cache.informer(CONFIG_MAPS, **DEFAULT)
    maps.add_handler(received)
    assert not maps.has_synced
    async with cache:
        await cache.wait_for_sync()
        assert maps.has_synced
        await world.create("b")
        await world.patch("a", {"data": {"v": "2"}})
        await world.client.delete(CONFIG_MAPS, "b", namespace="default")
        await until(lambda: len(received.changes) == 4)
        assert received.changes == ["+a", "+b", "~a", "-b"]
        found = maps.get(key("a"))
        assert found is not None
        assert (found["kind"], found["apiVersion"], found["data"]) == (
            "ConfigMap", "v1", {"v": "2"},
        )  # fmt: skip
        assert maps.get(key("a")) is found
        assert maps.get(key("b")) is None


async def test_informers_are_shared(world: World) -> None:
    cache = Cache(world.client)
    same = ApiResource("", "v1", "configmaps", "ConfigMap", verbs=("get",))
    assert cache.informer(CONFIG_MAPS) is cache.informer(same)
    assert cache.informer(CONFIG_MAPS) is not cache.informer(CONFIG_MAPS, namespace="x")


async def test_late_handler_receives_existing_objects(world: World) -> None:
    await world.create("a")
    cache, received = Cache(world.client), Received()
    async with cache:
        maps = cache.informer(CONFIG_MAPS, **DEFAULT)
        await cache.wait_for_sync()
        unsubscribe = maps.add_handler(received)
        assert received.changes == ["+a"]
        unsubscribe()
        await world.create("b")
        await until(lambda: maps.get(key("b")) is not None)
        assert received.changes == ["+a"]


async def test_indexes_are_updated(world: World) -> None:
    def by_colour(obj: dict[str, Any]) -> list[str]:
        return [obj["data"]["colour"]] if "data" in obj else []

    await world.create("a", data={"colour": "red"})
    cache = Cache(world.client)
    maps = cache.informer(CONFIG_MAPS, **DEFAULT)
    maps.add_index("colour", by_colour)
    maps.add_index("colour", by_colour)
    async with cache:
        await cache.wait_for_sync()
        assert [o["metadata"]["name"] for o in maps.by_index("colour", "red")] == ["a"]
        await world.patch("a", {"data": {"colour": "blue"}})
        await until(lambda: maps.by_index("colour", "blue"))
        assert maps.by_index("colour", "red") == []
        maps.add_index("name", lambda obj: [obj["metadata"]["name"]])
        assert len(maps.by_index("name", "a")) == 1
        await world.client.delete(CONFIG_MAPS, "a", namespace="default")
        await until(lambda: not maps.by_index("colour", "blue"))
        with pytest.raises(ValueError, match="already has an index colour"):
            maps.add_index("colour", lambda obj: [])
        with pytest.raises(KeyError):
            maps.by_index("size", "1")


async def test_failing_handler_or_index_does_not_stop_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(found: Any) -> Any:
        raise KeyError("broken")

    cache, received = Cache(world.client), Received()
    maps = cache.informer(CONFIG_MAPS, **DEFAULT)
    maps.add_index("broken", broken)
    maps.add_handler(broken)
    maps.add_handler(received)
    async with cache:
        await cache.wait_for_sync()
        await world.create("a")
        await until(lambda: received.changes == ["+a"])
    assert "a handler of configmaps failed at default/a" in caplog.text


class Interrupted:
    """Ends watches of ConfigMaps on demand; the next ones can be rejected as expired."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._handle = world.server.handle
        self.cut = asyncio.Event()
        self.is_expired = False
        self.watches = 0
        world.server.handle = self.handle  # type: ignore[method-assign]

    async def handle(self, request: Request) -> AnyResponse:
        answer = await self._handle(request)
        if not isinstance(answer, Stream) or request.info.resource != "configmaps":
            return answer
        if request.info.verb != "watch":
            return answer
        self.watches += 1
        if self.is_expired:
            self.is_expired = False
            line = watchers.error_line(errors.Expired("too old resource version: 1"))
            return Stream(lambda writer: writer.write(line))
        inner, cut = answer.produce, self.cut

        async def produce(writer: Any) -> None:
            following = asyncio.ensure_future(inner(writer))
            cutting = asyncio.ensure_future(cut.wait())
            await asyncio.wait({following, cutting}, return_when=asyncio.FIRST_COMPLETED)
            for task in (following, cutting):
                task.cancel()
            await asyncio.gather(following, cutting, return_exceptions=True)
            raise ConnectionResetError("cut")

        return Stream(produce)


@pytest.mark.parametrize("is_expired", [False, True], ids=["dropped", "expired"])
async def test_lost_watch_leads_to_exactly_the_differences(
    world: World, *, is_expired: bool
) -> None:
    interrupted = Interrupted(world)
    for name in ("kept", "changed", "removed"):
        await world.create(name)
    cache, received = Cache(world.client), Received()
    maps = cache.informer(CONFIG_MAPS, **DEFAULT)
    maps.add_handler(received)
    async with cache:
        await cache.wait_for_sync()
        await until(lambda: interrupted.watches == 1)
        received.changes.clear()
        interrupted.is_expired = is_expired
        interrupted.cut.set()
        await asyncio.sleep(0)
        await world.patch("changed", {"data": {"a": "b"}})
        await world.client.delete(CONFIG_MAPS, "removed", namespace="default")
        await world.create("added")
        interrupted.cut = asyncio.Event()
        await until(lambda: len(received.changes) >= 3)
        await until(lambda: interrupted.watches == (3 if is_expired else 2))
        await asyncio.sleep(60)
        assert sorted(received.changes) == ["+added", "-removed", "~changed"]
        assert maps.get(key("removed")) is None


async def test_watches_a_resource_that_is_defined_later(world: World) -> None:
    widgets = ApiResource("example.com", "v1", "widgets", "Widget")
    cache = Cache(world.client)
    found = cache.informer(widgets)
    async with cache:
        await asyncio.sleep(1)
        assert not found.has_synced
        await world.client.create(CUSTOM_RESOURCE_DEFINITIONS, widget_definition())
        await until(lambda: found.has_synced)


def widget_definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def test_keeps_only_recently_used_objects_decoded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "DECODED", 2)
    for i in range(4):
        await world.create(f"c{i}")
    cache = Cache(world.client)
    maps = cache.informer(CONFIG_MAPS, **DEFAULT)
    async with cache:
        await cache.wait_for_sync()
        first = maps.get(key("c0"))
        assert maps.get(key("c0")) is first
        assert len(list(maps.list())) == 4
        again = maps.get(key("c0"))
        assert again is not first
        assert again == first


async def test_metadata_only_informer(world: World) -> None:
    await world.create("a", data={"v": "1"})
    cache = Cache(world.client)
    maps = cache.informer(CONFIG_MAPS, metadata_only=True, **DEFAULT)
    async with cache:
        await cache.wait_for_sync()
        await world.patch("a", {"data": {"v": "2"}, "metadata": {"labels": {"l": "1"}}})
        await until(lambda: list(maps.list(label_selector="l=1")))
        (found,) = maps.list(namespace="default")
        assert set(found) == {"kind", "apiVersion", "metadata"}
