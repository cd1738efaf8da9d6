# SPDX-License-Identifier: Apache-2.0
"""Watches: start, content and end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.http.client import (
    CONFIG_MAPS,
    CRDS,
    MERGE,
    NAMESPACES,
    SECRETS,
    WIDGETS,
    Api,
    causes,
    config_map,
    crd,
    namespace,
    secret,
    widget,
)

from rdd.api.types import Object
from rdd.apiserver.state.cache import ResourceCache
from rdd.apiserver.verbs import watch as watching
from rdd.store.contract import HistoryChunk
from rdd.store.memory import MemoryStore

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
INITIAL = {
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": "true",
}


def shown(events: list[Object]) -> list[tuple[str, str]]:
    """Return the types and names of events."""
    return [(e["type"], e["object"]["metadata"].get("name", "")) for e in events]


async def now(api: Api, path: str = CONFIG_MAPS) -> Object:
    """Return a query that watches from the current state of a list."""
    return {"resourceVersion": (await api.get(path))["metadata"]["resourceVersion"]}


# -- start


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
async def test_watch_without_version_starts_with_the_current_objects(
    query: Object, api: Api
) -> None:
    for name in ("a", "b"):
        await api.post(CONFIG_MAPS, config_map(name))
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        assert shown(await stream.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await api.post(CONFIG_MAPS, config_map("c"))
        assert shown(await stream.take(1)) == [("ADDED", "c")]


async def test_watch_from_a_version_shows_every_later_change(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", {"n": "1"}))
    query = await now(api)
    await api.put(f"{CONFIG_MAPS}/a", config_map("a", {"n": "2"}))
    await api.post(CONFIG_MAPS, config_map("b"))
    await api.delete(f"{CONFIG_MAPS}/a")
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        past = await stream.take(3)
        assert shown(past) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in past]
        assert versions == sorted(versions)
        assert past[2]["object"]["data"] == {"n": "2"}
        await api.delete(f"{CONFIG_MAPS}/b")
        assert shown(await stream.take(1)) == [("DELETED", "b")]


async def test_watch_resumes_from_any_event_it_has_seen(api: Api) -> None:
    query = await now(api)
    for i in range(6):
        await api.post(CONFIG_MAPS, config_map(f"c{i}"))
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        events = await stream.take(3)
    since = events[-1]["object"]["metadata"]["resourceVersion"]
    async with api.watch(CONFIG_MAPS, query={"resourceVersion": since}) as stream:
        assert shown(await stream.take(3)) == [("ADDED", f"c{i}") for i in (3, 4, 5)]


async def test_old_changes_are_read_from_the_store(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = await now(api)
    for i in range(1500):  # more than the ring of the cache holds
        await api.post(CONFIG_MAPS, config_map(f"c{i:04}"))
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        events = await stream.take(1500)
    assert shown(events) == [("ADDED", f"c{i:04}") for i in range(1500)]


async def test_compacted_version_gives_an_error_event(api: Api) -> None:
    query = await now(api)
    for i in range(1200):
        await api.post(CONFIG_MAPS, config_map(f"c{i}"))
    await api.server.store.compact(api.server.store.revision)
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        (last,) = await stream.rest()
    status = last["object"]
    assert last["type"] == "ERROR"
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {query['resourceVersion']} (")


class SlowHistory:
    """Returns one event of history at a time; `between` runs before each further chunk."""

    def __init__(self, store: MemoryStore, between: Callable[[int], Awaitable[object]]) -> None:
        self._history = store.history
        self._between = between
        self.chunks = 0

    async def __call__(self, prefix: str, after: int) -> HistoryChunk:
        self.chunks += 1
        if self.chunks > 1:
            await self._between(self.chunks)
        chunk = await self._history(prefix, after)
        if len(chunk.events) < 2:
            return chunk
        return HistoryChunk(chunk.events[:1], chunk.events[0].revision)


async def test_changes_during_a_replay_arrive_after_it_without_gap_or_repetition(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResourceCache, "RING_COUNT", 1)
    query = await now(api)
    for i in range(5):
        await api.post(CONFIG_MAPS, config_map(f"c{i}"))

    async def write(n: int) -> None:
        await api.post(CONFIG_MAPS, config_map(f"late{n}"))

    history = SlowHistory(api.server.store, write)
    monkeypatch.setattr(api.server.store, "history", history)
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        events = await stream.take(9)
        await api.post(CONFIG_MAPS, config_map("last"))
        events += await stream.take(1)
    assert history.chunks == 5
    names = [*(f"c{i}" for i in range(5)), *(f"late{n}" for n in range(2, 6)), "last"]
    assert shown(events) == [("ADDED", name) for name in names]


async def test_compaction_during_a_replay_ends_the_watch(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResourceCache, "RING_COUNT", 1)
    query = await now(api)
    for i in range(5):
        await api.post(CONFIG_MAPS, config_map(f"c{i}"))
    store = api.server.store
    history = SlowHistory(store, lambda n: store.compact(store.revision))
    monkeypatch.setattr(store, "history", history)
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        first, last = await stream.rest()
    assert shown([first]) == [("ADDED", "c0")]
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
    assert last["object"]["message"].startswith("too old resource version: ")


async def test_closing_the_server_ends_a_replay(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ResourceCache, "RING_COUNT", 1)
    query = await now(api)
    for i in range(5):
        await api.post(CONFIG_MAPS, config_map(f"c{i}"))
    core = api.server.running.core

    async def withdraw(n: int) -> None:
        for hub in core.watchers.values():
            hub.close()

    history = SlowHistory(api.server.store, withdraw)
    monkeypatch.setattr(api.server.store, "history", history)
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        assert shown(await stream.rest()) == [("ADDED", "c0"), ("ADDED", "c1")]
    assert history.chunks == 2
    core.watchers.clear()


@pytest.mark.parametrize("version", ["soon", "-7", "0.5"])
async def test_malformed_version_is_an_error(version: str, api: Api) -> None:
    path = f"{CONFIG_MAPS}?watch=1&resourceVersion={version}"
    status = await api.refused(500, "GET", path)
    assert status["message"] == (
        f'resourceVersion: Invalid value: "{version}": '
        f'strconv.ParseUint: parsing "{version}": invalid syntax'
    )
    assert "reason" not in status


async def test_initial_events_end_with_a_bookmark(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    async with api.watch(CONFIG_MAPS, query=INITIAL) as stream:
        assert shown(await stream.take(1)) == [("ADDED", "a")]
        mark = (await stream.next())["object"]
        assert mark["kind"] == "ConfigMap"
        assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(mark["metadata"]["resourceVersion"]) == api.server.store.revision
        await api.post(CONFIG_MAPS, config_map("b"))
        assert shown(await stream.take(1)) == [("ADDED", "b")]


async def test_without_initial_events_only_later_changes_are_shown(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    query = {"sendInitialEvents": "false", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        await api.post(CONFIG_MAPS, config_map("b"))
        assert shown(await stream.take(1)) == [("ADDED", "b")]


@pytest.mark.parametrize(
    ("query", "reasons"),
    [
        pytest.param("sendInitialEvents=true", ["FieldValueForbidden"], id="no match"),
        pytest.param("sendInitialEvents=perhaps", ["FieldValueForbidden"], id="lenient boolean"),
        pytest.param(
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            ["FieldValueForbidden", "FieldValueNotSupported"],
            id="exact",
        ),
        pytest.param("resourceVersionMatch=NotOlderThan", ["FieldValueForbidden"], id="alone"),
        pytest.param(
            "resourceVersionMatch=Exact&resourceVersion=4",
            ["FieldValueForbidden", "FieldValueNotSupported"],
            id="an exact watch",
        ),
    ],
)
async def test_invalid_combinations_of_initial_events_are_rejected(
    query: str, reasons: list[str], api: Api
) -> None:
    status = await api.refused(422, "GET", f"{CONFIG_MAPS}?watch=1&{query}")
    assert causes(status) == [("resourceVersionMatch", reason) for reason in reasons]
    assert status["details"]["group"] == "meta.k8s.io"


# -- content


async def test_objects_enter_and_leave_a_selection(api: Api) -> None:
    query = {**await now(api), "labelSelector": "on=yes"}
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        await api.post(CONFIG_MAPS, config_map("a"))
        for value in ("yes", "yes", "no", "yes"):
            change = {"metadata": {"labels": {"on": value}}, "data": {"n": value * 2}}
            await api.patch(f"{CONFIG_MAPS}/a", change, MERGE)
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"n": "3"}}, MERGE)
        await api.delete(f"{CONFIG_MAPS}/a")
        events = await stream.take(5)
    assert [e["type"] for e in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    left = events[1]["object"]
    assert left["metadata"]["labels"] == {"on": "yes"}, "the last state that was selected"
    assert int(left["metadata"]["resourceVersion"]) > int(
        events[0]["object"]["metadata"]["resourceVersion"]
    )


async def test_watch_of_one_name_shows_that_object_only(api: Api) -> None:
    query = {**await now(api), "fieldSelector": "metadata.name=b"}
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        for name in ("a", "b", "c"):
            await api.post(CONFIG_MAPS, config_map(name))
        for name in ("a", "b", "c"):
            await api.delete(f"{CONFIG_MAPS}/{name}")
        assert shown(await stream.take(2)) == [("ADDED", "b"), ("DELETED", "b")]


async def test_selection_by_a_field_follows_its_changes(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    query = {**await now(api, NAMESPACES), "fieldSelector": "status.phase=Terminating"}
    async with api.watch(NAMESPACES, query=query) as stream:
        await api.patch(f"{NAMESPACES}/team", {"metadata": {"labels": {"a": "b"}}}, MERGE)
        await api.delete(f"{NAMESPACES}/team")
        assert shown(await stream.take(1)) == [("ADDED", "team")]


async def test_deprecated_watch_paths_work(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    path = "/api/v1/watch/namespaces/default/configmaps"
    async with api.watch(path) as stream:
        assert shown(await stream.take(1)) == [("ADDED", "a")]
    async with api.watch(f"{path}/a") as stream:
        await api.post(CONFIG_MAPS, config_map("b"))
        await api.delete(f"{CONFIG_MAPS}/a")
        assert shown(await stream.take(2)) == [("ADDED", "a"), ("DELETED", "a")]


async def test_watch_of_all_namespaces_sees_them_all(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    path = "/api/v1/configmaps"
    query = {**await now(api, path), "labelSelector": "mine"}
    async with api.watch(path, query=query) as stream:
        await api.post(CONFIG_MAPS, config_map("a", labels={"mine": ""}))
        other = "/api/v1/namespaces/team/configmaps"
        await api.post(other, config_map("b", labels={"mine": ""}))
        await api.post(other, config_map("c"))
        await api.delete(other)
        events = await stream.take(3)
    assert shown(events) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "b")]


async def test_watch_of_one_namespace_sees_no_other(api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    async with api.watch(CONFIG_MAPS, query=await now(api)) as stream:
        await api.post("/api/v1/namespaces/team/configmaps", config_map("a"))
        await api.post(SECRETS, secret("s"))
        await api.post(CONFIG_MAPS, config_map("b"))
        assert shown(await stream.take(1)) == [("ADDED", "b")]


async def test_finalizers_make_a_deletion_two_events(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", finalizers=["shop.example.com/f"]))
    async with api.watch(CONFIG_MAPS, query=await now(api)) as stream:
        await api.delete(f"{CONFIG_MAPS}/a")
        await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, MERGE)
        marked, gone = await stream.take(2)
    assert shown([marked, gone]) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    assert gone["object"]["metadata"]["finalizers"] == ["shop.example.com/f"]


async def test_deleting_a_collection_gives_an_event_for_each_object(api: Api) -> None:
    for name in ("a", "b", "c"):
        await api.post(CONFIG_MAPS, config_map(name))
    async with api.watch(CONFIG_MAPS, query=await now(api)) as stream:
        await api.delete(CONFIG_MAPS)
        events = await stream.take(3)
    assert sorted(shown(events)) == [("DELETED", name) for name in ("a", "b", "c")]


async def test_write_that_changes_nothing_is_no_event(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", {"n": "1"}))
    async with api.watch(CONFIG_MAPS, query=await now(api)) as stream:
        await api.put(f"{CONFIG_MAPS}/a", config_map("a", {"n": "1"}))
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"n": "1"}}, MERGE)
        await api.post(CONFIG_MAPS, config_map("b"))
        assert shown(await stream.take(1)) == [("ADDED", "b")]


async def test_custom_resources_can_be_watched(api: Api) -> None:
    await api.install(crd())
    query = await now(api, WIDGETS)
    chosen = {**query, "labelSelector": "l"}
    async with api.watch(WIDGETS, query=query) as stream, api.watch(WIDGETS, query=chosen) as some:
        await api.post(WIDGETS, widget("a", {"n": 1}))
        await api.patch(f"{WIDGETS}/a", {"spec": {"n": 2}, "metadata": {"labels": {"l": ""}}})
        await api.patch(f"{WIDGETS}/a", {"metadata": {"labels": None}})
        await api.delete(f"{WIDGETS}/a")
        events = await stream.take(4)
        assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
        assert [e["object"]["metadata"]["generation"] for e in events] == [1, 2, 2, 2]
        assert [e["type"] for e in await some.take(2)] == ["ADDED", "DELETED"]


async def test_only_the_first_table_has_column_definitions(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", {"x": "1"}))
    async with api.watch(CONFIG_MAPS, headers=TABLE) as stream:
        first = (await stream.next())["object"]
        await api.post(CONFIG_MAPS, config_map("b"))
        second = (await stream.next())["object"]
    assert (first["kind"], first["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["rows"][0]["cells"][:2] == ["a", 1]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][:2] == ["b", 0]


async def test_partial_objects_have_metadata_only(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", {"x": "1"}))
    async with api.watch(CONFIG_MAPS, headers=PARTIAL) as stream:
        obj = (await stream.next())["object"]
        await api.delete(f"{CONFIG_MAPS}/a")
        assert shown(await stream.take(1)) == [("DELETED", "a")]
    assert (obj["kind"], obj["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert set(obj) == {"kind", "apiVersion", "metadata"}


async def test_watch_is_never_yaml(api: Api) -> None:
    headers = {"Accept": "application/yaml"}
    reply = await api.call("GET", f"{CONFIG_MAPS}?watch=1", headers=headers)
    assert reply.status == 406
    assert "reason: NotAcceptable" in reply.text


# -- end


async def test_watch_ends_after_its_timeout(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    async with api.watch(CONFIG_MAPS, query={"timeoutSeconds": "1"}) as stream:
        assert shown(await stream.rest()) == [("ADDED", "a")]


async def test_bookmarks_are_sent_on_request(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "BOOKMARK_EVERY_S", 0.05)
    query = {**await now(api), "allowWatchBookmarks": "true"}
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        await api.post(SECRETS, secret("s"))
        mark = await stream.next()
        assert mark["type"] == "BOOKMARK"
        version = int(mark["object"]["metadata"]["resourceVersion"])
        assert version == api.server.store.revision
        assert mark["object"]["metadata"].get("name") is None


async def test_watch_ends_when_its_crd_is_deleted(api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("a"))
    async with api.watch(WIDGETS, query=await now(api, WIDGETS)) as stream:
        await api.delete(f"{CRDS}/widgets.shop.example.com")
        events = await stream.rest()
    assert shown(events)[0] == ("DELETED", "a")


async def test_disconnected_client_is_removed(api: Api) -> None:
    core = api.server.running.core
    async with api.watch(CONFIG_MAPS):
        await asyncio.sleep(0)
        assert core.watch_count == 1
    assert core.watch_count == 0
    assert not core.watchers[("", "v1", "configmaps")].views


async def test_watchers_of_the_same_selection_share_a_view(api: Api) -> None:
    query: dict[str, Any] = await now(api)
    streams = [await api.server.watch(CONFIG_MAPS, query=query) for _ in range(20)]
    await asyncio.sleep(0)
    views = api.server.running.core.watchers[("", "v1", "configmaps")].views
    assert len(views) == 1
    await api.post(CONFIG_MAPS, config_map("a"))
    for stream in streams:
        assert shown(await stream.take(1)) == [("ADDED", "a")]
        await stream.close()


# -- bookmarks and single objects


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_initial_events_end_with_a_bookmark_if_bookmarks_are_allowed(
    query: Object, api: Api
) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    allowed = {**query, "allowWatchBookmarks": "true"}
    async with api.watch(CONFIG_MAPS, query=allowed) as stream:
        first, last = await stream.take(2)
    assert (first["type"], last["type"]) == ("ADDED", "BOOKMARK")
    assert last["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        await stream.take(1)
        await api.post(CONFIG_MAPS, config_map("b"))
        assert shown(await stream.take(1)) == [("ADDED", "b")]


async def test_initial_events_without_bookmarks_end_silently(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        await stream.take(1)
        await api.post(CONFIG_MAPS, config_map("b"))
        assert shown(await stream.take(1)) == [("ADDED", "b")]


async def test_a_bookmark_precedes_the_timeout(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LAST_BOOKMARK_S", 0.9)
    query = {**await now(api), "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        assert [e["type"] for e in await stream.rest()] == ["BOOKMARK"]
    monkeypatch.setattr(watching, "LAST_BOOKMARK_S", 2.0)
    async with api.watch(CONFIG_MAPS, query=query) as stream:
        assert await stream.rest() == []


async def test_watch_parameter_on_one_object_is_a_plain_read(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a"))
    query = {"watch": "true", "limit": "abc", "resourceVersionMatch": "x"}
    assert (await api.get(f"{CONFIG_MAPS}/a", query=query))["metadata"]["name"] == "a"
    await api.get(f"{CONFIG_MAPS}/b", query=query, expect=404)


async def test_watch_prefix_refuses_a_selector_of_another_name(api: Api) -> None:
    path = "/api/v1/watch/namespaces/default/configmaps/a"
    reply = await api.call("GET", path, query={"fieldSelector": "metadata.name=b"})
    assert reply.json()["message"] == "fieldSelector metadata.name doesn't match requested name"


async def test_options_are_checked_before_the_stream_format(api: Api) -> None:
    headers = {"Accept": "application/yaml"}
    query = {"watch": "true", "resourceVersion": "abc"}
    reply = await api.call("GET", CONFIG_MAPS, query=query, headers=headers)
    assert reply.status == 500
    reply = await api.call("GET", CONFIG_MAPS, query={"watch": "true"}, headers=headers)
    assert reply.status == 406
