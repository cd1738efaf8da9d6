# SPDX-License-Identifier: Apache-2.0
"""Responses in protobuf, as Go clients of built-in kinds request them."""

import asyncio
from typing import Any

import pytest
from tests.http.client import CONFIG_MAPS, CRDS, LEASES, RBAC, SECRETS, Api, config_map, crd
from tests.unit.schema.wire.protobuf_encoder import body

from rdd.api.types import Object
from rdd.apiserver.http.request import Stream
from rdd.schema.builtin import field_numbers, notation, typed
from rdd.schema.wire import protobuf, protobuf_encoding
from rdd.testing import wire

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPT = {"Accept": f"{PROTOBUF},application/json"}
WIDGETS = "/apis/shop.example.com/v1/namespaces/default/widgets"
OBJECTS: list[tuple[str, Object]] = [
    (CONFIG_MAPS, config_map("a", {"k": "é", "e": ""}, labels={"b": "1", "a": ""})),
    (SECRETS, {"metadata": {"name": "a", "finalizers": ["x/y"]}, "data": {"p": "cQ=="}}),
    (
        LEASES,
        {
            "metadata": {"name": "a"},
            "spec": {"leaseDurationSeconds": 5, "renewTime": "2024-01-02T03:04:05.000678Z"},
        },
    ),
    (
        f"{RBAC}/clusterroles",
        {"metadata": {"name": "a"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
    ),
    (
        "/api/v1/namespaces/default/resourcequotas",
        {"metadata": {"name": "a"}, "spec": {"hard": {"cpu": "1500m"}}},
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        {
            "metadata": {"name": "a"},
            "webhooks": [
                {
                    "name": "a.example.com",
                    "clientConfig": {"url": "https://127.0.0.1:1/x"},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "rules": [
                        {
                            "operations": ["CREATE"],
                            "apiGroups": ["x.example.com"],
                            "apiVersions": ["v1"],
                            "resources": ["y"],
                        }
                    ],
                }
            ],
        },
    ),
    (CRDS, crd()),
]


def definition_of(obj: Object) -> str:
    for name in field_numbers.table():
        struct = notation.struct(name)
        if (struct.kind, struct.api_version) == (obj["kind"], obj["apiVersion"]):
            return name
    raise AssertionError(obj)


def decoded(message: bytes) -> Object:
    found = protobuf.decode(message)
    return typed.decode_typed(typed.shape(definition_of(found)), found, unknown=[])


async def read(api: Api, path: str, **options: Any) -> bytes:
    reply = await api.call("GET", path, headers=ACCEPT, **options)
    assert (reply.status, reply.content_type) == (200, PROTOBUF)
    return reply.body


@pytest.mark.parametrize(("path", "obj"), OBJECTS, ids=[p.rpartition("/")[2] for p, _ in OBJECTS])
async def test_objects_are_those_of_json(path: str, obj: Object, api: Api) -> None:
    await api.post(path, obj)
    name = obj["metadata"]["name"]
    as_json = await api.get(f"{path}/{name}")
    message = await read(api, f"{path}/{name}")
    assert decoded(message) == as_json
    if "webhooks" not in as_json:  # The encoder of tests splits embedded messages.
        del as_json["metadata"]["managedFields"]  # and spaces JSON in another way
        assert protobuf_encoding.encode(as_json) == body(definition_of(as_json), as_json)


async def test_lists_have_items_and_metadata(api: Api) -> None:
    for name in ("a", "b"):
        await api.post(CONFIG_MAPS, config_map(name, {"k": name}))
    as_json = await api.get(CONFIG_MAPS)
    message = await read(api, CONFIG_MAPS)
    assert message == protobuf_encoding.encode(as_json)
    assert message.startswith(b"k8s\x00\n\x13\n\x02v1\x12\rConfigMapList")


async def test_metadata_and_errors_are_protobuf_also_for_custom_resources(api: Api) -> None:
    await api.install(crd())
    widget = {"apiVersion": "shop.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}}
    await api.post(WIDGETS, widget)
    whole = await api.call("GET", f"{WIDGETS}/a", headers=ACCEPT)
    assert whole.content_type == "application/json"
    only = await api.call("GET", f"{WIDGETS}/a", headers={"Accept": PROTOBUF})
    assert only.status == 406
    partial = {"Accept": f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    reply = await api.call("GET", f"{WIDGETS}/a", headers=partial)
    assert (reply.status, reply.content_type) == (200, PROTOBUF)
    assert b"PartialObjectMetadata" in reply.body
    missing = await api.call("GET", f"{WIDGETS}/none", headers={"Accept": f"{PROTOBUF},*/*"})
    assert (missing.status, missing.content_type) == (404, PROTOBUF)
    assert decoded(missing.body)["reason"] == "NotFound"


@pytest.mark.parametrize("transform", ["Table", "Nothing"])
async def test_tables_have_no_protobuf_form(transform: str, api: Api) -> None:
    accept = {"Accept": f"{PROTOBUF};as={transform};g=meta.k8s.io;v=v1"}
    await api.refused(406, "GET", CONFIG_MAPS, headers=accept)


async def test_discovery_is_protobuf_on_request(api: Api) -> None:
    for path, kind in (
        ("/api", b"APIVersions"),
        ("/apis", b"APIGroupList"),
        ("/apis/events.k8s.io", b"APIGroup"),
        ("/api/v1", b"APIResourceList"),
    ):
        assert kind in await read(api, path)
    # Documents without a message stay JSON.
    assert (await api.call("GET", "/version", headers=ACCEPT)).content_type == "application/json"


class Collector:
    """A client of a watch that disconnects after some frames."""

    def __init__(self, frames: int) -> None:
        self.received = b""
        self._left = frames
        self._done = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.push(data)

    def push(self, data: bytes) -> bool:
        self.received += data
        if data:
            self._left -= 1
        if self._left <= 0:
            self._done.set()
        return True

    async def closed(self) -> None:
        await self._done.wait()


async def test_watch_events_are_frames(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("a", {"k": "v"}))
    expected = await api.get(f"{CONFIG_MAPS}/a")
    query = {"watch": "1", "allowWatchBookmarks": "1"}
    request = wire.make_request("GET", CONFIG_MAPS, query=query, headers=ACCEPT, user=wire.ADMIN)
    response = await api.server.running.handle(request)
    assert isinstance(response, Stream)
    assert response.content_type == f"{PROTOBUF};stream=watch"
    client = Collector(2)
    await response.produce(client)
    first = protobuf_encoding.watch_frame("ADDED", expected)
    assert client.received.startswith(first)
    second = client.received[len(first) :]
    assert int.from_bytes(second[:4], "big") == len(second) - 4
    assert second[4:].startswith(b"\n\x08BOOKMARK")
    assert b"k8s.io/initial-events-end" in second
