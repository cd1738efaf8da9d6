# SPDX-License-Identifier: Apache-2.0
"""The API answers the same over HTTP/1.1 and HTTP/2: status, headers and body.

What cannot exist in HTTP/2, and so differs: `Connection`, `Upgrade` (WebSockets, SPDY),
`Transfer-Encoding`, `100 Continue`, reason phrases, and names of headers in mixed case.
"""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from tests.http.api_wire import Wire, eventually
from tests.http.client import APPLY, CONFIG_MAPS, CRDS, JSON_PATCH, MERGE, NAMESPACES, STRATEGIC
from tests.http.wire.http2_client import Http2Client
from tests.http.wire.http2_gateway import gateway
from tests.http.wire.http2_transport import Http2Transport
from yarl import URL

from rdd.http.h2 import frames

# Of one connection, or different at any other moment.
_NOT_COMPARED = {"date", "connection", "transfer-encoding", "audit-id", "keep-alive"}
_VOLATILE = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    r'|"resourceVersion":"\d+"'
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request."""

    method: str
    target: str
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def _json(method: str, target: str, body: Any, media: str = "application/json") -> Sent:
    return Sent(method, target, json.dumps(body).encode(), {"Content-Type": media})


MAP = {"metadata": {"name": "new"}, "data": {"a": "b"}}
DRY = "dryRun=All"
BIG = "/openapi/v2"
CASES = {
    "get": Sent("GET", f"{CONFIG_MAPS}/here"),
    "head": Sent("HEAD", f"{CONFIG_MAPS}/here"),
    "absent": Sent("GET", f"{CONFIG_MAPS}/absent"),
    "list": Sent("GET", CONFIG_MAPS),
    "page": Sent("GET", f"{CONFIG_MAPS}?limit=1"),
    "selector": Sent("GET", f"{CONFIG_MAPS}?labelSelector=a%20in%20(b%2Cc)"),
    "bad selector": Sent("GET", f"{CONFIG_MAPS}?labelSelector=a%20in"),
    "table": Sent(
        "GET", CONFIG_MAPS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    ),
    "protobuf": Sent(
        "GET", CONFIG_MAPS, headers={"Accept": "application/vnd.kubernetes.protobuf"}
    ),
    "not acceptable": Sent("GET", CONFIG_MAPS, headers={"Accept": "text/csv"}),
    "yaml": Sent("GET", f"{CONFIG_MAPS}/here", headers={"Accept": "application/yaml"}),
    "unknown resource": Sent("GET", "/api/v1/things"),
    "unknown group": Sent("GET", "/apis/absent.example.com/v1"),
    "unknown path": Sent("GET", "/nowhere"),
    "unknown method": Sent("BREW", CONFIG_MAPS),
    "odd path": Sent("GET", "/api/v1/namespaces/default/configmaps//x"),
    "encoded path": Sent("GET", "/api/v1/namespaces/default/configmaps/a%2Fb"),
    "dots": Sent("GET", "/api/v1/namespaces/../nodes"),
    "options": Sent("OPTIONS", CONFIG_MAPS),
    "trace": Sent("TRACE", CONFIG_MAPS),
    "discovery": Sent("GET", "/apis"),
    "aggregated discovery": Sent(
        "GET",
        "/apis",
        headers={
            "Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        },
    ),
    "openapi": Sent("GET", BIG),
    "openapi gzip": Sent("GET", BIG, headers={"Accept-Encoding": "gzip"}),
    "livez": Sent("GET", "/livez?verbose"),
    "version": Sent("GET", "/version"),
    "create": _json("POST", f"{CONFIG_MAPS}?{DRY}", MAP),
    "create again": _json("POST", CONFIG_MAPS, {"metadata": {"name": "here"}}),
    "create unknown field": _json(
        "POST", f"{CONFIG_MAPS}?{DRY}&fieldValidation=Warn", {**MAP, "colour": "red"}
    ),
    "create invalid": _json("POST", CONFIG_MAPS, {"metadata": {"name": "Not Valid"}}),
    "no json": Sent("POST", CONFIG_MAPS, b"{", {"Content-Type": "application/json"}),
    "no body": Sent("POST", CONFIG_MAPS, b"", {"Content-Type": "application/json"}),
    "other media": Sent("POST", CONFIG_MAPS, b"x", {"Content-Type": "text/plain"}),
    "too large": _json("POST", CONFIG_MAPS, {"a": "x" * 3_300_000}),
    "too large for the store": _json(
        "POST", CONFIG_MAPS, {"metadata": {"name": "big"}, "data": {"a": "x" * 1_700_000}}
    ),
    "put": _json("PUT", f"{CONFIG_MAPS}/here?{DRY}", {"metadata": {"name": "here"}}),
    "put other name": _json("PUT", f"{CONFIG_MAPS}/here", {"metadata": {"name": "there"}}),
    "merge patch": _json("PATCH", f"{CONFIG_MAPS}/here?{DRY}", {"data": {"x": "y"}}, MERGE),
    "json patch": _json(
        "PATCH", f"{CONFIG_MAPS}/here?{DRY}", [{"op": "remove", "path": "/no"}], JSON_PATCH
    ),
    "strategic patch": _json("PATCH", f"{CONFIG_MAPS}/here?{DRY}", {"data": None}, STRATEGIC),
    "apply": _json(
        "PATCH",
        f"{CONFIG_MAPS}/applied?{DRY}&fieldManager=m",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}},
        APPLY,
    ),
    "delete": Sent("DELETE", f"{CONFIG_MAPS}/here?{DRY}"),
    "delete options": _json(
        "DELETE", f"{CONFIG_MAPS}/here", {"preconditions": {"uid": "no-such-uid"}}
    ),
    "delete collection": Sent("DELETE", f"{CONFIG_MAPS}?{DRY}"),
    "crd invalid": _json("POST", CRDS, {"metadata": {"name": "a.b"}, "spec": {"group": "b"}}),
    "namespace": _json("POST", f"{NAMESPACES}?{DRY}", {"metadata": {"name": "space"}}),
    "watch of the past": Sent("GET", f"{CONFIG_MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1"),
    "watch": Sent("GET", f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1"),
    "no credentials": Sent("GET", CONFIG_MAPS, headers={"Authorization": "Bearer wrong"}),
    "impersonation": Sent(
        "GET",
        CONFIG_MAPS,
        headers={"Impersonate-User": "jane", "Impersonate-Extra-Scopes": "view"},
    ),
    "long query": Sent("GET", f"{CONFIG_MAPS}?fieldSelector=metadata.name%3D{'x' * 6000}"),
    "many headers": Sent("GET", "/version", headers={f"X-{i}": "v" for i in range(520)}),
    "umlauts": Sent("GET", f"{CONFIG_MAPS}/%C3%BC"),
}  # fmt: skip


@pytest.fixture
async def http2(wire: Wire) -> AsyncIterator[Http2Transport]:
    await wire.api.post(CONFIG_MAPS, {"metadata": {"name": "here"}, "data": {"k": "v"}})
    transport = await Http2Transport.connect(f"http://127.0.0.1:{wire.port}")
    yield transport
    await transport.close()


def _comparable(
    status: int, headers: list[tuple[str, str]], body: bytes
) -> tuple[int, list[tuple[str, str]], str]:
    kept = sorted((n.lower(), v) for n, v in headers if n.lower() not in _NOT_COMPARED)
    return status, kept, _VOLATILE.sub("*", body.decode("latin-1"))


@pytest.mark.parametrize("name", CASES)
async def test_answers_are_the_same(wire: Wire, http2: Http2Transport, name: str) -> None:
    sent = CASES[name]
    headers = {"Authorization": f"Bearer {wire.api.server.tokens['admin']}", **sent.headers}
    headers.setdefault("Accept-Encoding", "identity")
    headers.setdefault("Accept", "application/json")
    headers.setdefault("User-Agent", "tester/1")
    data = io.BytesIO(sent.body) if sent.body else None
    url = URL(f"http://127.0.0.1:{wire.port}{sent.target}", encoded=True)
    async with (
        asyncio.timeout(120),
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.request(sent.method, url, headers=headers, data=data) as response,
    ):
        pairs = list(response.headers.items())
        first = _comparable(response.status, pairs, await response.read())
        answer = await http2.request(sent.method, sent.target, list(headers.items()), sent.body)
        second = _comparable(answer.status, answer.headers, await answer.read())
    assert second == first


async def test_clients_of_http_1_reach_http_2_through_the_gateway(wire: Wire) -> None:
    """The gateway of the transcripts: a streamed watch, a body of megabytes and errors pass."""
    token = wire.api.server.tokens["admin"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    body = {"metadata": {"name": "large"}, "data": {"a": "x" * 900_000}}
    async with (
        asyncio.timeout(120),
        gateway(f"http://127.0.0.1:{wire.port}") as url,
        aiohttp.ClientSession(headers=headers, read_bufsize=1 << 21) as session,
        session.get(f"{url}{CONFIG_MAPS}?watch=1") as watch,
    ):
        async with session.post(f"{url}{CONFIG_MAPS}", json=body) as created:
            assert created.status == 201
        event = json.loads(await watch.content.readline())
        assert (event["type"], event["object"]["data"]) == ("ADDED", body["data"])
        async with session.get(f"{url}{CONFIG_MAPS}/absent") as absent:
            assert absent.status == 404


async def test_slow_watch_expires_without_its_connection(wire: Wire) -> None:
    """A watch that is not read gets 410 on its stream; other streams of the connection go on."""
    client = Http2Client.on(*await wire.connect())
    client.start({frames.INITIAL_WINDOW_SIZE: 0})
    auth = [("authorization", f"Bearer {wire.api.server.tokens['admin']}")]
    slow = client.request(path=f"{CONFIG_MAPS}?watch=1", extra=auth)
    await eventually(lambda: wire.watch_count == 1)
    for number in range(14):
        large = {"metadata": {"name": f"m-{number}"}, "data": {"a": "x" * 800_000}}
        await wire.api.post(CONFIG_MAPS, large)
    await eventually(lambda: wire.watch_count == 0)
    read = client.request(path=f"{CONFIG_MAPS}/absent", extra=auth)
    client.raw.send(frames.window_update(read, 100_000))
    status, _, body = await client.answer(read)
    assert (status, json.loads(body)["reason"]) == (404, "NotFound")
    client.raw.send(frames.window_update(0, 1 << 30) + frames.window_update(slow, 1 << 30))
    _, _, body = await client.answer(slow)
    assert json.loads(body.splitlines()[-1])["object"]["code"] == 410
