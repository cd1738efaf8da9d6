# SPDX-License-Identifier: Apache-2.0
"""Faults: which requests they affect, how often, and how."""

import asyncio
import http.client
import json
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rdd.apiserver.http.request import AnyResponse, Request, Response
from rdd.testing import Fault, Faults, LiveServer, Server
from rdd.testing.faults import Handle

PATH = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        await server.create(config_map("a"))
        await server.create(config_map("b"))
        yield server


async def put(server: Server, name: str) -> tuple[int, str]:
    reply = await server.request("PUT", f"{PATH}/{name}", config_map(name))
    return reply.status, reply.json().get("message", "")


async def test_conflict_applies_once_and_names_the_object(server: Server) -> None:
    fault = server.faults.conflict()
    status, message = await put(server, "a")
    assert status == 409
    assert message.startswith('Operation cannot be fulfilled on configmaps "a": the object has')
    assert (fault.hits, fault.remaining) == (1, 0)
    assert await put(server, "a") == (200, "")


@pytest.mark.parametrize(
    ("add", "status", "reason"),
    [
        pytest.param(lambda f: f.error(), 500, "InternalError", id="default"),
        pytest.param(lambda f: f.error(503), 503, "ServiceUnavailable", id="by status"),
        pytest.param(lambda f: f.error(504, reason="Odd"), 504, "Odd", id="with a reason"),
        pytest.param(lambda f: f.error(418), 418, None, id="unknown status"),
        pytest.param(lambda f: f.too_many(), 429, "TooManyRequests", id="too many"),
    ],
)
async def test_error_has_the_given_status_and_reason(
    add: Callable[[Faults], Fault], status: int, reason: str | None, server: Server
) -> None:
    add(server.faults)
    reply = await server.request("GET", f"{PATH}/a")
    assert (reply.status, reply.json().get("reason")) == (status, reason)


async def test_too_many_has_retry_after(server: Server) -> None:
    server.faults.too_many(2, retry_after=7)
    for _ in range(2):
        reply = await server.request("GET", PATH)
        assert (reply.status, reply.header("Retry-After")) == (429, "7")
    assert (await server.request("GET", PATH)).status == 200


@pytest.mark.parametrize(
    ("where", "struck"),
    [
        pytest.param({}, True, id="anything"),
        pytest.param({"verb": "update"}, True, id="verb"),
        pytest.param({"verb": ("get", "update")}, True, id="one of some verbs"),
        pytest.param({"verb": "patch"}, False, id="another verb"),
        pytest.param({"resource": "configmaps"}, True, id="resource"),
        pytest.param({"resource": "secrets"}, False, id="another resource"),
        pytest.param({"resource": "configmaps.example.com"}, False, id="another group"),
        pytest.param({"name": "a"}, True, id="name"),
        pytest.param({"name": "b"}, False, id="another name"),
        pytest.param({"namespace": "default"}, True, id="namespace"),
        pytest.param({"namespace": "kube-system"}, False, id="another namespace"),
        pytest.param({"subresource": ""}, True, id="no subresource"),
        pytest.param({"subresource": "status"}, False, id="another subresource"),
    ],
)
async def test_fault_applies_only_to_the_selected_requests(
    where: dict[str, Any], struck: bool, server: Server
) -> None:
    fault = server.faults.error(500, **where)
    status, _ = await put(server, "a")
    assert (status == 500, fault.hits == 1) == (struck, struck)


async def test_fault_without_count_applies_until_its_block_ends(server: Server) -> None:
    with server.faults.error(500, None, resource="configmaps") as fault:
        for _ in range(3):
            assert (await server.request("GET", PATH)).status == 500
    assert fault.hits == 3
    assert (await server.request("GET", PATH)).status == 200
    assert (await server.request("GET", "/version")).status == 200


async def test_requests_of_the_server_itself_are_unaffected(server: Server) -> None:
    server.faults.error(500, None)
    await server.create(config_map("c"))


async def test_custom_fault_returns_its_own_response(server: Server) -> None:
    async def act(request: Request, handle: Handle) -> AnyResponse:
        answer = await handle(request)
        assert isinstance(answer, Response)
        return Response(answer.status, b'{"odd":true}')

    server.faults.add(act, verb="get")
    assert (await server.request("GET", f"{PATH}/a")).json() == {"odd": True}


async def test_gone_ends_a_watch_and_rejects_old_lists_only(server: Server) -> None:
    server.faults.gone(None)
    stream = await server.watch(PATH, query={"resourceVersion": 3})
    (event,) = await stream.rest()
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["message"] == "too old resource version: 3"
    assert (await server.request("GET", PATH)).status == 200
    page = (await server.request("GET", PATH, query={"limit": 1})).json()["metadata"]["continue"]
    reply = await server.request("GET", PATH, query={"limit": 1, "continue": page})
    assert (reply.status, reply.json()["reason"]) == (410, "Expired")


async def test_dropped_watch_breaks_after_some_events(server: Server) -> None:
    server.faults.drop_watch(after=1)
    stream = await server.watch(PATH)
    assert (await stream.next())["object"]["metadata"]["name"] == "a"
    with pytest.raises(ConnectionResetError):
        await stream.next()
    async with await server.watch(PATH) as whole:
        assert len(await whole.take(2)) == 2


async def test_watch_that_ends_before_it_is_dropped_ends_normally(server: Server) -> None:
    server.faults.drop_watch(after=10)
    stream = await server.watch(PATH, query={"timeoutSeconds": 1})
    assert len(await stream.rest()) == 2


async def test_slow_watch_delays_events_and_keeps_their_order(server: Server) -> None:
    server.faults.slow_watch(0.02)
    started = asyncio.get_running_loop().time()
    async with await server.watch(PATH) as stream:
        await server.create(config_map("c"))
        events = await stream.take(3)
    assert [e["object"]["metadata"]["name"] for e in events] == ["a", "b", "c"]
    assert asyncio.get_running_loop().time() - started >= 0.06


async def test_delayed_response_is_correct(server: Server) -> None:
    started = asyncio.get_running_loop().time()
    server.faults.delay(0.02, verb="get")
    assert (await server.request("GET", f"{PATH}/a")).status == 200
    assert asyncio.get_running_loop().time() - started >= 0.02


async def test_response_is_lost_after_the_request_was_executed(server: Server) -> None:
    server.faults.lose_answer(verb="create")
    with pytest.raises(ConnectionResetError):
        await server.request("POST", PATH, config_map("c"))
    assert (await server.request("GET", f"{PATH}/c")).status == 200


def test_faults_reach_clients_of_a_live_server() -> None:
    with LiveServer() as live:
        context = ssl.create_default_context(cafile=live.ca_file)
        headers = {"Authorization": f"Bearer {live.token}", "Content-Type": "application/json"}

        def send(method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
            connection = http.client.HTTPSConnection("127.0.0.1", live.port, context=context)
            try:
                connection.request(method, path, json.dumps(body) if body else None, headers)
                return connection.getresponse().read()
            finally:
                connection.close()

        live.faults.lose_answer(verb="create")
        with pytest.raises(http.client.IncompleteRead):
            send("POST", PATH, config_map("a"))
        assert live.request("GET", f"{PATH}/a").status == 200
        live.faults.drop_watch(after=1)
        with pytest.raises(http.client.IncompleteRead) as broken:
            send("GET", f"{PATH}?watch=1")
        assert broken.value.partial.count(b"\n") == 1
