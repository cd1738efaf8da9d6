# SPDX-License-Identifier: Apache-2.0
"""The verbs of the client, in-process against a real server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

import orjson
import pytest
from tests.unit.client.client_world import Pauses, Scripted, config_map, failed, json, line

from rdd.api import errors
from rdd.apiserver.http.request import Request, User
from rdd.apiserver.server import ApiServer, open_server
from rdd.apiserver.state import watchers
from rdd.client import ApiResource, Client, LocalTransport, Reply, Unreachable, local
from rdd.client.resources import CLUSTER_ROLES, CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS
from rdd.store.memory import MemoryStore

ADMIN = User("admin", ("system:masters",))


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = await open_server(MemoryStore())
    yield made
    await made.close()


@pytest.fixture
def client(server: ApiServer) -> Client:
    transport = LocalTransport(server.handle, partial(Request, user=ADMIN))
    return Client(transport, user_agent="tester/1.0")


def config(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_create_get_update_delete(client: Client) -> None:
    made = await client.create(CONFIG_MAPS, config("a", x="1"))
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    assert made["metadata"]["managedFields"][0]["manager"] == "tester"
    made["data"] = {"x": "2"}
    changed = await client.update(CONFIG_MAPS, made)
    assert await client.get(CONFIG_MAPS, "a", namespace="default") == changed
    with pytest.raises(errors.Conflict):
        await client.update(CONFIG_MAPS, made)
    gone = await client.delete(CONFIG_MAPS, "a", namespace="default")
    assert gone["status"] == "Success"
    with pytest.raises(errors.NotFound, match='configmaps "a" not found'):
        await client.get(CONFIG_MAPS, "a", namespace="default")


async def test_empty_name_is_rejected(client: Client) -> None:
    await client.create(CONFIG_MAPS, config("a"))
    requests = (
        client.get(CONFIG_MAPS, "", namespace="default"),
        client.delete(CONFIG_MAPS, "", namespace="default"),
        client.patch(CONFIG_MAPS, "", {"data": {}}, namespace="default"),
        client.update(CONFIG_MAPS, config("")),
        client.apply(CONFIG_MAPS, config(""), field_manager="tester"),
    )
    for request in requests:
        with pytest.raises(errors.BadRequest, match="resource name may not be empty"):
            await request
    await client.get(CONFIG_MAPS, "a", namespace="default")


async def test_patches_of_every_type(client: Client) -> None:
    await client.create(CONFIG_MAPS, config("a", x="1", y="1"))
    patch = partial(client.patch, CONFIG_MAPS, "a", namespace="default")
    found = await patch([{"op": "replace", "path": "/data/x", "value": "2"}], type_="json")
    assert found["data"] == {"x": "2", "y": "1"}
    found = await patch({"data": {"y": None}})
    assert found["data"] == {"x": "2"}
    found = await patch({"data": {"z": "3"}}, type_="strategic", field_manager="somebody")
    assert found["data"] == {"x": "2", "z": "3"}
    assert "somebody" in {m["manager"] for m in found["metadata"]["managedFields"]}
    mine = {"metadata": {"name": "a", "namespace": "default"}, "data": {"z": "4"}}
    with pytest.raises(errors.Conflict, match="somebody"):
        await client.apply(CONFIG_MAPS, mine, field_manager="me")
    found = await client.apply(CONFIG_MAPS, mine, field_manager="me", force=True)
    assert found["data"]["z"] == "4"


async def test_preconditions_and_policies_of_a_delete(client: Client) -> None:
    made = await client.create(CONFIG_MAPS, config("a"))
    delete = partial(client.delete, CONFIG_MAPS, "a", namespace="default")
    with pytest.raises(errors.Conflict, match="UID in the precondition"):
        await delete(uid="other")
    with pytest.raises(errors.Conflict, match="ResourceVersion in the precondition"):
        await delete(resource_version="1")
    assert (await delete(dry_run=True))["status"] == "Success"
    held = await delete(propagation_policy="Foreground", uid=made["metadata"]["uid"])
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]


async def test_dry_run_and_field_validation_reach_the_server(client: Client) -> None:
    await client.create(CONFIG_MAPS, config("a"), dry_run=True)
    with pytest.raises(errors.NotFound):
        await client.get(CONFIG_MAPS, "a", namespace="default")
    with pytest.raises(errors.BadRequest, match="unknown field"):
        await client.create(CONFIG_MAPS, {**config("a"), "wrong": 1}, field_validation="Strict")


async def test_subresources(client: Client) -> None:
    namespace = await client.create(NAMESPACES, {"metadata": {"name": "ns"}})
    namespace["spec"] = {"finalizers": []}
    changed = await client.update(NAMESPACES, namespace, subresource="finalize")
    assert "finalizers" not in changed["spec"]
    found = await client.get(NAMESPACES, "ns", subresource="status")
    assert found["status"] == {"phase": "Active"}


async def test_collection_is_deleted_by_label(client: Client) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        obj = config(name)
        obj["metadata"]["labels"] = {"l": label}  # type: ignore[index]
        await client.create(CONFIG_MAPS, obj)
    await client.delete_collection(CONFIG_MAPS, namespace="default", label_selector="l=x")
    found = await client.list(CONFIG_MAPS, namespace="default")
    assert [o["metadata"]["name"] for o in found.items] == ["b"]


async def test_list_joins_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(7):
        await client.create(CONFIG_MAPS, config(f"a{n}"))
    pages = [
        len(page.items)
        async for page in client.pages(CONFIG_MAPS, namespace="default", page_size=3)
    ]
    assert pages == [3, 3, 1]
    found = await client.list(CONFIG_MAPS, namespace="default")
    assert len(found.items) == 7
    assert found.items[0]["kind"] == "ConfigMap"
    assert found.resource_version


async def test_large_streamed_list_is_complete(client: Client) -> None:
    for n in range(60):
        await client.create(CONFIG_MAPS, config(f"a{n}", x="y" * 30_000))
    assert len((await client.list(CONFIG_MAPS)).items) == 60


@pytest.mark.parametrize("saves_bytes", [False, True])
async def test_metadata_only_is_the_same_with_every_transport(
    client: Client, monkeypatch: pytest.MonkeyPatch, saves_bytes: bool
) -> None:
    monkeypatch.setattr(client.transport, "saves_bytes", saves_bytes)
    made = await client.create(CONFIG_MAPS, config("a", x="1"))
    expected = {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": made["metadata"],
    }
    get = await client.get(CONFIG_MAPS, "a", namespace="default", metadata_only=True)
    assert get == expected
    listed = await client.list(CONFIG_MAPS, namespace="default", metadata_only=True)
    assert listed.items == [expected]
    changes = client.watch(CONFIG_MAPS, namespace="default", metadata_only=True)
    async with aclosing(changes):
        event = await anext(changes)
    assert event.object == expected


async def test_names_with_special_characters_are_escaped(client: Client) -> None:
    role = {"metadata": {"name": "system:a b"}, "rules": []}
    await client.create(CLUSTER_ROLES, role)
    assert (await client.get(CLUSTER_ROLES, "system:a b"))["metadata"]["name"] == "system:a b"
    await client.delete(CLUSTER_ROLES, "system:a b")


async def test_requests_use_the_given_user(server: ApiServer) -> None:
    reader = Client(LocalTransport(server.handle, partial(Request, user=User("reader"))))
    with pytest.raises(errors.Forbidden, match='User "reader" cannot list'):
        await reader.list(CONFIG_MAPS)
    with pytest.raises(errors.Forbidden, match='User "reader" cannot watch'):
        await anext(reader.watch(CONFIG_MAPS))


# -- watch


async def test_watch_without_version_starts_with_existing_objects(client: Client) -> None:
    await client.create(CONFIG_MAPS, config("a"))
    changes = client.watch(CONFIG_MAPS, namespace="default")
    async with aclosing(changes):
        first = await anext(changes)
        await client.create(CONFIG_MAPS, config("b"))
        second = await anext(changes)
    assert [first.type, second.type] == ["ADDED", "ADDED"]
    assert second.object["metadata"]["name"] == "b"


async def test_closing_a_watch_ends_it_on_the_server(server: ApiServer, client: Client) -> None:
    await client.create(CONFIG_MAPS, config("a"))
    changes = client.watch(CONFIG_MAPS, namespace="default")
    await anext(changes)
    assert server.core.watch_count == 1
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert server.core.watch_count == 0


async def test_slow_reader_is_disconnected(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MAX_BEHIND_BYTES", 30_000)
    monkeypatch.setattr(local, "_ROOM_BYTES", 30_000)
    monkeypatch.setattr(watchers, "MAX_LAG_BYTES", 30_000)
    await client.create(CONFIG_MAPS, config("first"))
    changes = client.watch(CONFIG_MAPS, namespace="default")
    async with aclosing(changes):
        await anext(changes)
        for n in range(5):
            await client.create(CONFIG_MAPS, config(f"a{n}", x="y" * 20_000))
        with pytest.raises(errors.Expired):
            async for _ in changes:
                pass


async def test_unwanted_events_are_not_buffered(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MAX_BEHIND_BYTES", 50_000)
    await client.create(CONFIG_MAPS, config("first"))
    changes = client.watch(
        CONFIG_MAPS, namespace="default", keep=lambda _, body: b'"name":"a' not in body
    )
    async with aclosing(changes):
        await anext(changes)
        for n in range(5):
            await client.create(CONFIG_MAPS, config(f"a{n}", x="y" * 20_000))
        await client.create(CONFIG_MAPS, config("last"))
        assert (await anext(changes)).object["metadata"]["name"] == "last"


async def test_initial_events_wait_for_a_slow_reader(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ROOM_BYTES", 10_000)
    for n in range(50):
        await client.create(CONFIG_MAPS, config(f"a{n:02}", x="y" * 20_000))
    names = []
    changes = client.watch(CONFIG_MAPS, namespace="default")
    async with aclosing(changes):
        async for event in changes:
            names.append(event.object["metadata"]["name"])
            if len(names) == 50:
                break
    assert names == [f"a{n:02}" for n in range(50)]


# -- failures and warnings


@pytest.mark.parametrize(
    "reply, kind, message",
    [
        pytest.param(failed(errors.Gone("g")), errors.Gone, "g", id="Status"),
        pytest.param(
            Reply(404, b"404 page not found\n"),
            errors.NotFound,
            "the server could not find the requested resource",
            id="not found without a Status",
        ),
        pytest.param(Reply(503, b""), errors.ServiceUnavailable, "HTTP 503", id="nothing"),
        pytest.param(json({"x": 1}, 418), errors.ApiError, '{"x":1}', id="other JSON"),
    ],
)
async def test_failure_becomes_its_class(
    reply: Reply, kind: type[errors.ApiError], message: str
) -> None:
    with pytest.raises(kind) as raised:
        await Client(Scripted(reply)).get(CONFIG_MAPS, "a", namespace="default")
    assert raised.value.message == message
    assert raised.value.code == reply.status


async def test_too_many_requests_is_retried_after_the_requested_delay() -> None:
    pauses = Pauses()
    busy = failed(errors.TooManyRequests("busy", retry_after_s=3))
    in_header = Reply(429, b"", (("Retry-After", "7"),))
    transport = Scripted(busy, in_header, json(config_map("a", 1)))
    found = await Client(transport, sleep=pauses).get(CONFIG_MAPS, "a", namespace="default")
    assert found["metadata"]["name"] == "a"
    assert pauses.taken == [3, 7]
    with pytest.raises(errors.TooManyRequests):
        await Client(Scripted(*[busy] * 5), sleep=pauses).get(CONFIG_MAPS, "a")
    with pytest.raises(errors.TooManyRequests):
        await Client(Scripted(Reply(429, b""))).get(CONFIG_MAPS, "a")


async def test_warnings_are_reported() -> None:
    warnings: list[str] = []
    headers = (("Warning", '299 - "say \\"please\\""'), ("Other", "x"), ("warning", "odd"))
    reply = Reply(200, orjson.dumps(config_map("a", 1)), headers)
    client = Client(Scripted(reply), on_warning=warnings.append)
    await client.get(CONFIG_MAPS, "a")
    assert warnings == ['say "please"', "odd"]


async def test_broken_stream_is_unreachable(server: ApiServer) -> None:
    class Breaking:
        status = 200
        headers = None

        async def produce(self, writer: object) -> None:
            raise ConnectionResetError("cut")

    async def handle(request: object) -> Breaking:
        return Breaking()

    client = Client(LocalTransport(handle, partial(Request, user=ADMIN)))
    with pytest.raises(Unreachable, match="cut"):
        await client.list(CONFIG_MAPS)
    with pytest.raises(Unreachable, match="cut"):
        await anext(client.watch(CONFIG_MAPS))


async def test_event_with_members_in_another_order_is_decoded() -> None:
    text = b'{"object":{"metadata":{"name":"a"}},"type":"ADDED"}'
    changes = Client(Scripted([text, line("DELETED", config_map("a", 2))])).watch(CONFIG_MAPS)
    async with aclosing(changes):
        events = [event async for event in changes]
    assert [e.type for e in events] == ["ADDED", "DELETED"]
    assert repr(events[1]) == "Event(DELETED default/a)"


# -- discovery


async def test_discovery_finds_resources_by_kind_and_by_name(client: Client) -> None:
    found = await client.discover()
    config_maps = found.by_kind("v1", "ConfigMap")
    assert config_maps is not None and config_maps.path("ns", "a") == CONFIG_MAPS.path("ns", "a")
    assert found.by_kind("v2", "ConfigMap") is None
    for text in ("configmaps", "configmap", "cm", "ConfigMap", "configmaps.v1"):
        assert found.find(text) is config_maps
    role = found.find("roles.rbac.authorization.k8s.io")
    assert role is not None and role is found.find("roles.v1.rbac.authorization.k8s.io")
    assert found.find("roles.other.io") is None
    accounts = found.find("sa")
    assert accounts is not None and accounts.subresources == ("token",)
    assert found.preferred()["", "serviceaccounts"].plural == SERVICE_ACCOUNTS.plural


async def test_discovery_of_an_unchanged_server_is_the_same_object(client: Client) -> None:
    first = await client.discover()
    assert await client.discover(first) is first


async def test_preferred_version_is_first_and_stale_ones_are_listed() -> None:
    def version(name: str, **more: str) -> dict[str, object]:
        resource = {"resource": "things", "responseKind": {"kind": "Thing"}, "scope": "Cluster"}
        return {"version": name, "resources": [resource], **more}

    group = {
        "metadata": {"name": "example.com"},
        "versions": [version("v2"), version("v1", freshness="Stale")],
    }
    found = await Client(Scripted(json({"items": []}), json({"items": [group]}))).discover()
    assert found.preferred()["example.com", "things"].version == "v2"
    older = found.by_kind("example.com/v1", "Thing")
    assert older is not None and not older.namespaced
    assert found.stale == ("example.com/v1",)
    picked = found.find("things.v1.example.com")
    assert picked is older


@pytest.mark.parametrize(
    "args, path",
    [
        pytest.param((), "/apis/g.io/v1/things", id="all"),
        pytest.param(("ns",), "/apis/g.io/v1/namespaces/ns/things", id="namespace"),
        pytest.param(("ns", "a"), "/apis/g.io/v1/namespaces/ns/things/a", id="object"),
        pytest.param(("", "a", "status"), "/apis/g.io/v1/things/a/status", id="subresource"),
        pytest.param(("", "a/b%"), "/apis/g.io/v1/things/a%2Fb%25", id="escaped"),
    ],
)
def test_path(args: tuple[str, ...], path: str) -> None:
    assert ApiResource("g.io", "v1", "things").path(*args) == path


async def test_state_of_a_list_and_watch_in_process_is_filtered_and_shared(
    client: Client, server: ApiServer
) -> None:
    for name in "abc":
        await client.create(CONFIG_MAPS, config(name))
    seen: list[str] = []

    def keep(type_: str, body: bytes) -> bool:
        seen.append(type_)
        return b'"name":"b"' in body

    changes = client.list_and_watch(CONFIG_MAPS, namespace="default", keep=keep)
    async with aclosing(changes):
        assert (await anext(changes)).type == "RELIST"
        event = await anext(changes)
        assert event.object["metadata"]["name"] == "b"
        resource = server.core.registry.get("", "v1", "configmaps")
        assert resource is not None and event.encoded is not None
        entry = resource.cache.get("default", "b")
        assert entry is not None and event.encoded.body is entry.body
        assert (await anext(changes)).type == "SYNCED"
        assert seen.count("ADDED") >= 3
