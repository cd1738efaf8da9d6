# SPDX-License-Identifier: Apache-2.0
"""The audit log: levels, stages, annotations, and what it never contains."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from rdd.api.types import Object
from rdd.apiserver.audit.auditor import Auditor
from rdd.apiserver.audit.policy import API_VERSION, AuditPolicy
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.request import Request, Response, Stream, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.http.exchange import parse_query
from rdd.store.memory import MemoryStore

CORE = "/api/v1/namespaces/default"
TOKENS = {"admin": User("admin", ("system:masters",), uid="7"), "bob": User("bob")}


class Sink:
    """Keeps the events."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.is_closed = False

    def write(self, line: bytes) -> None:
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        self.lines.append(line)

    def close(self) -> None:
        self.is_closed = True

    @property
    def events(self) -> list[Object]:
        return [orjson.loads(line) for line in self.lines]


class World:
    def __init__(self, server: ApiServer, sink: Sink) -> None:
        self.server = server
        self.sink = sink

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = "admin",
        query: str = "",
        **headers: str,
    ) -> Response | Stream:
        """Make a request as from a socket."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            given["Authorization"] = f"Bearer {token}"
        given.setdefault("Content-Type", "application/json")
        data = body if isinstance(body, bytes) else orjson.dumps(body) if body is not None else b""
        self.sink.lines.clear()
        request = Request(method, path, query=parse_query(query), headers=given, body=data)
        answer = await self.server.handle(request)
        assert isinstance(answer, Response | Stream)
        return answer


def policy(*rules: Object, **members: Any) -> AuditPolicy:
    return AuditPolicy(
        {"apiVersion": API_VERSION, "kind": "Policy", "rules": list(rules), **members}
    )


@pytest.fixture
async def world(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[World]:
    """A server that logs everything, or by the policy of the test."""
    sink = Sink()
    found = getattr(request, "param", None) or policy({"level": "RequestResponse"})
    server = await open_server(
        MemoryStore(),
        ServerOptions(
            tokens=TOKENS,
            signing_key=certificates.ensure_signing_key(tmp_path),
            audit=Auditor(found, sink),
        ),
    )
    yield World(server, sink)
    await server.close()
    assert sink.is_closed


async def test_an_event_describes_request_and_response(world: World) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
    await world.call(
        "POST",
        f"{CORE}/configmaps",
        body,
        query="fieldManager=me&dryRun=All",
        User_Agent="tester/1",
        X_Forwarded_For="10.0.0.1, 10.0.0.2",
    )
    received, complete = world.sink.events
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert "requestObject" not in received
    assert "responseStatus" not in received
    assert received["auditID"] == complete["auditID"]
    assert complete["kind"] == "Event"
    assert complete["apiVersion"] == "audit.k8s.io/v1"
    assert complete["level"] == "RequestResponse"
    assert complete["verb"] == "create"
    assert complete["requestURI"] == f"{CORE}/configmaps?fieldManager=me&dryRun=All"
    assert complete["user"] == {
        "username": "admin",
        "uid": "7",
        "groups": ["system:masters", "system:authenticated"],
    }
    assert complete["sourceIPs"] == ["10.0.0.1", "10.0.0.2", "127.0.0.1"]
    assert complete["userAgent"] == "tester/1"
    assert complete["objectRef"] == {
        "resource": "configmaps",
        "namespace": "default",
        "apiVersion": "v1",
    }
    assert complete["responseStatus"] == {"metadata": {}, "code": 201}
    assert complete["requestObject"] == body
    assert complete["responseObject"]["data"] == {"k": "v"}
    assert complete["annotations"] == {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": "",
    }
    assert complete["requestReceivedTimestamp"] <= complete["stageTimestamp"]


async def test_refused_and_failed_requests_are_logged(world: World) -> None:
    await world.call("GET", f"{CORE}/configmaps", token="bob")
    event = world.sink.events[-1]
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert event["responseStatus"]["code"] == 403
    assert event["responseStatus"]["reason"] == "Forbidden"
    await world.call("GET", f"{CORE}/configmaps", token="wrong")
    event = world.sink.events[-1]
    assert event["user"] == {"username": ""}
    assert event["responseStatus"]["code"] == 401
    await world.call("GET", f"{CORE}/configmaps/none")
    assert world.sink.events[-1]["responseStatus"]["reason"] == "NotFound"
    await world.call("GET", "/healthz", token="")
    assert world.sink.events[-1]["user"]["username"] == "system:anonymous"
    assert "objectRef" not in world.sink.events[-1]


async def test_impersonation_shows_both_users(world: World) -> None:
    await world.call("GET", f"{CORE}/configmaps", Impersonate_User="eve")
    event = world.sink.events[-1]
    assert event["user"]["username"] == "admin"
    assert event["impersonatedUser"]["username"] == "eve"
    assert event["responseStatus"]["code"] == 403


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", f"{CORE}/secrets", {"metadata": {"name": "s"}, "stringData": {"k": "TOP-SECRET"}}),
        ("GET", f"{CORE}/secrets/kept", None),
        ("GET", f"{CORE}/secrets", None),
        ("GET", "/api/v1/secrets", None),
        ("PATCH", f"{CORE}/secrets/kept", {"stringData": {"k": "TOP-SECRET"}}),
        ("PUT", f"{CORE}/secrets/kept", {"metadata": {"name": "kept"}, "data": {"k": "VE9Q"}}),
        ("DELETE", f"{CORE}/secrets", None),
        ("POST", f"{CORE}/serviceaccounts/acc/token", {"spec": {"audiences": ["TOP-SECRET"]}}),
        (
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"spec": {"token": "TOP-SECRET"}},
        ),
    ],
)
async def test_credentials_are_never_logged(
    world: World, method: str, path: str, body: Object | None
) -> None:
    kept = {"metadata": {"name": "kept"}, "stringData": {"k": "TOP-SECRET"}}
    await world.call("POST", f"{CORE}/secrets", kept)
    await world.call("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "acc"}})
    media = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await world.call(method, path, body, Content_Type=media)
    assert answer.status < 300, getattr(answer, "body", b"")
    assert [e["level"] for e in world.sink.events] == ["Metadata"] * 2
    text = b"".join(world.sink.lines)
    for secret in (b"TOP-SECRET", b"VE9QLVNFQ1JFVA", b"VE9Q", b"eyJ", b"requestObject"):
        assert secret not in text


@pytest.mark.parametrize(
    "world",
    [
        policy(
            {"level": "None", "users": ["bob"]},
            {"level": "None", "nonResourceURLs": ["/healthz*", "/version"]},
            {"level": "Request", "resources": [{"group": "", "resources": ["configmaps"]}]},
            {"level": "Metadata", "verbs": ["list"], "omitStages": ["RequestReceived"]},
        )
    ],
    indirect=True,
)
async def test_the_first_matching_rule_decides(world: World) -> None:
    await world.call("GET", f"{CORE}/configmaps", token="bob")
    assert world.sink.lines == []
    await world.call("GET", "/healthz/ping")
    assert world.sink.lines == []
    await world.call("POST", f"{CORE}/configmaps", {"metadata": {"name": "a"}})
    assert "requestObject" in world.sink.events[-1]
    assert "responseObject" not in world.sink.events[-1]
    await world.call("GET", f"{CORE}/serviceaccounts")
    assert [e["stage"] for e in world.sink.events] == ["ResponseComplete"]
    await world.call("GET", "/api/v1/namespaces/default")
    assert world.sink.lines == []


@pytest.mark.parametrize(
    "world",
    [policy({"level": "RequestResponse"}, omitManagedFields=True, omitStages=["RequestReceived"])],
    indirect=True,
)
async def test_managed_fields_can_be_omitted(world: World) -> None:
    await world.call("POST", f"{CORE}/configmaps", {"metadata": {"name": "a"}})
    (event,) = world.sink.events
    assert event["responseObject"]["metadata"]["name"] == "a"
    assert "managedFields" not in event["responseObject"]["metadata"]


async def test_bodies_that_are_not_json_do_not_fail_requests(world: World) -> None:
    applied = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yy\n"
    answer = await world.call(
        "PATCH",
        f"{CORE}/configmaps/yy",
        applied,
        query="fieldManager=m",
        Content_Type="application/apply-patch+yaml",
    )
    assert answer.status == 201, getattr(answer, "body", b"")
    assert world.sink.events[-1]["requestObject"]["metadata"] == {"name": "yy"}
    answer = await world.call("POST", f"{CORE}/configmaps", b"{\xff")
    assert answer.status == 400
    assert "requestObject" not in world.sink.events[-1]


async def test_bodies_of_other_paths_are_not_logged(world: World) -> None:
    for path in ("/version", "/openapi/v2", "/api", "/nope"):
        await world.call("GET", path)
        (event,) = (e for e in world.sink.events if e["stage"] == "ResponseComplete")
        assert event["level"] == "RequestResponse"
        assert not {"requestObject", "responseObject", "objectRef"} & event.keys()


@pytest.mark.parametrize("depth", range(245, 258))
async def test_the_deepest_bodies_do_not_fail_requests(world: World, depth: int) -> None:
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    answer = await world.call("POST", f"{CORE}/configmaps", nested)
    assert answer.status in (400, 422)
    assert world.sink.events[-1]["responseStatus"]["code"] == answer.status


async def test_a_watch_has_a_start_and_an_end(world: World) -> None:
    answer = await world.call("GET", f"{CORE}/configmaps", query="watch=true&timeoutSeconds=1")
    assert isinstance(answer, Stream)
    assert [e["stage"] for e in world.sink.events] == ["RequestReceived", "ResponseStarted"]

    class Writer:
        async def write(self, data: bytes) -> None: ...

        def push(self, data: bytes) -> bool:
            return True

        async def closed(self) -> None:
            await asyncio.Event().wait()

    await answer.produce(Writer())
    assert world.sink.events[-1]["stage"] == "ResponseComplete"
