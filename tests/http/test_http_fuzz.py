# SPDX-License-Identifier: Apache-2.0
"""Fuzz tests of the whole server: every request gets a deliberate response.

An accidental response is a 500 with reason InternalError, which only an
exception in the server causes, or an error in its log. (Kubernetes itself
returns 500 for some malformed requests; those have no reason.) Requests are
mutations of valid ones: wrong methods, paths, queries, media types, bodies and
patches.

The number of examples and seconds is limited; RDD_SOAK=1 runs longer.
"""

import asyncio
import json
import logging
import random
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.http.client import (
    ACCOUNTS,
    APPLY,
    BINDINGS,
    CONFIG_MAPS,
    CRDS,
    EVENTS,
    JSON_PATCH,
    LEASES,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    STRATEGIC,
    WIDGETS,
    account,
    as_user,
    binding,
    config_map,
    crd,
    event,
    lease,
    namespace,
    role,
    secret,
    widget,
)

from rdd.testing import Options, Server, WatchStream

SOAK = settings.get_current_profile_name() == "soak"  # loaded for RDD_SOAK=1
EXAMPLES = 3_000 if SOAK else 150
BUDGET = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=not SOAK,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "default": 1},
                "name": {"type": "string", "maxLength": 10, "pattern": "^[a-z]*$"},
                "port": {"x-kubernetes-int-or-string": True},
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {"id": {"type": "string"}, "n": {"type": "number"}},
                    },
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
            "x-kubernetes-validations": [
                {"rule": "!has(self.size) || self.size != 13"},
                {"rule": "!has(self.tags) || self.tags.all(t, t.size() < 20)"},
            ],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


class World:
    """A server in its own event loop, shared by all examples of a test."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.records: list[logging.LogRecord] = []
        self.server = Server(Options(builtin_controllers=""))
        self.run(self._start())

    async def _start(self) -> None:
        await self.server.start()
        scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
        await self.server.install(crd(schema=SCHEMA, subresources={"status": {}, "scale": scale}))
        for obj in (config_map("x", {"a": "b"}), widget("x", {"size": 1}), account("x")):
            await self.server.create(obj)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(120):
                return await coroutine

        return self.loop.run_until_complete(limited())

    def close(self) -> None:
        self.run(self.server.close())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def check(self, method: str, path: str, body: bytes, headers: dict[str, str], user: Any) -> int:
        """Make a request and check that the response is deliberate."""
        status, text = self.run(self._ask(method, path, body, headers, user))
        logged, self.records[:] = [_text(record) for record in self.records], []
        assert not logged, logged[0]
        assert not (status == 500 and b'"InternalError"' in text), text[:500]
        return int(status)

    async def _ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str], user: Any
    ) -> tuple[int, bytes]:
        from rdd.apiserver.http.request import Stream
        from rdd.testing import wire

        request = wire.make_request(method, path, body, headers=headers, user=user)
        answer = await self.server.handle(request)
        if isinstance(answer, Stream) and request.info.verb == "watch":
            stream = WatchStream(answer)
            await asyncio.sleep(0)
            await stream.close()
            return answer.status, b""
        reply = await wire.collect(answer)
        return reply.status, reply.body


def _text(record: logging.LogRecord) -> str:
    return logging.Formatter().format(record)


class Collector(logging.Handler):
    """Records the errors of the server."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.ERROR)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    handler = Collector(world.records)
    logging.getLogger("rdd").addHandler(handler)
    yield world
    logging.getLogger("rdd").removeHandler(handler)
    world.close()


# -- parts of requests

COLLECTIONS = {
    CONFIG_MAPS: config_map("x", {"a": "b"}),
    SECRETS: secret("x", {"k": "dg=="}),
    ACCOUNTS: account("x"),
    EVENTS: event("x", reason="R"),
    NAMESPACES: namespace("x"),
    LEASES: lease("x", {"holderIdentity": "h", "renewTime": "2030-01-01T00:00:00.000000Z"}),
    ROLES: role("x", [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
    BINDINGS: binding("x", "r"),
    CRDS: crd("gadgets", "Gadget", schema=SCHEMA),
    WIDGETS: widget("x", {"size": 1, "tags": ["a"], "parts": [{"id": "p", "n": 1.5}]}),
    f"{RBAC}/clusterroles": role("x", [], kind="ClusterRole"),
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {
        "spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    },
    "/apis/authentication.k8s.io/v1/tokenreviews": {"spec": {"token": "t"}},
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies": {
        "metadata": {"name": "x"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["odd.example.com"],
                        "apiVersions": ["*"],
                        "operations": ["*"],
                        "resources": ["*"],
                    }
                ]
            },
            "validations": [{"expression": "object.spec.size > 3"}],
        },
    },
}
EXTRA_PATHS = [
    "/", "/api", "/apis", "/api/v1", "/version", "/healthz", "/openapi/v2", "/openapi/v3",
    "/openapi/v3/api/v1", "/metrics", "/apis/shop.example.com/v1", "/api/v1/watch/configmaps",
    f"{WIDGETS}/x/status", f"{WIDGETS}/x/scale", f"{ACCOUNTS}/x/token",
    f"{NAMESPACES}/default/finalize", f"{NAMESPACES}/default/status",
]  # fmt: skip

SCALARS: list[Any] = [
    None, True, False, 0, 1, -1, 13, 2**31, 2**53, 2**63, 2**64, -(2**63), 1.5, 1e300, -0.0, "",
    "x", " ", "\x00", "\ud7ff", "ü", "a" * 300, "1", "true", "null", "5Gi", "-", "..", "/", "*",
    "2030-01-01T00:00:00Z", "kubernetes", "x-kubernetes", "self", "$ref", "=", "in (", "%s",
]  # fmt: skip

scalars = st.one_of(st.sampled_from(SCALARS), st.text(max_size=8), st.integers(), st.floats())
keys = st.one_of(
    st.sampled_from(
        [
            "metadata", "name", "namespace", "labels", "annotations", "finalizers", "uid",
            "ownerReferences", "managedFields", "resourceVersion", "generateName", "spec",
            "status", "data", "kind", "apiVersion", "rules", "subjects", "roleRef", "items",
            "$patch", "$retainKeys", "$setElementOrder/finalizers", "versions", "schema",
            "deletionTimestamp", "creationTimestamp", "selfLink", "generation", "conditions",
        ]
    ),
    st.text(max_size=6),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
names = st.one_of(st.sampled_from(["x", "y", "default", "", "..", "%2e", "A_B", "x/status"]), keys)
queries = st.dictionaries(
    st.sampled_from(
        [
            "limit", "continue", "resourceVersion", "resourceVersionMatch", "watch", "pretty",
            "labelSelector", "fieldSelector", "timeoutSeconds", "dryRun", "fieldManager", "force",
            "fieldValidation", "sendInitialEvents", "allowWatchBookmarks", "includeObject",
            "propagationPolicy", "gracePeriodSeconds", "orphanDependents", "verbose", "exclude",
        ]
    ),
    st.one_of(
        st.sampled_from(
            [
                "", "0", "1", "-1", "true", "false", "All", "x", "Exact", "NotOlderThan", "Strict",
                "Foreground", "Orphan", "a=b", "a in (b,c)", "!a", "metadata.name=x", "99999999",
                "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "Metadata", "Object",
            ]
        ),
        st.text(max_size=12),
    ),
    max_size=4,
)  # fmt: skip
accepts = st.sampled_from(
    [
        "", "*/*", "application/json", "application/yaml", "text/html",
        "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", ";;;,,,", "a/b;q=x",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ]
)  # fmt: skip
media = st.sampled_from(
    ["application/json", "application/yaml", "text/plain", "application/vnd.kubernetes.protobuf",
     JSON_PATCH, MERGE, STRATEGIC, APPLY, "", "application/json; charset=x"]
)  # fmt: skip
users = st.sampled_from([None, as_user("jo", "readers"), as_user("")])


def encoded(value: Any) -> bytes:
    """Encode any value as JSON, including lone surrogates and infinities."""
    return json.dumps(value).encode("utf-8", "surrogatepass")


def bent(value: Any, rng: random.Random, patch: Any) -> Any:
    """Return a copy of a value with one member removed, replaced, doubled or grown."""
    copy = json.loads(json.dumps(value))
    places: list[tuple[Any, Any]] = []

    def collect(node: Any) -> None:
        if isinstance(node, dict):
            for key, child in node.items():
                places.append((node, key))
                collect(child)
        elif isinstance(node, list):
            for i, child in enumerate(node):
                places.append((node, i))
                collect(child)

    collect(copy)
    if not places:
        return patch
    for _ in range(rng.randint(1, 2)):
        node, key = rng.choice(places)
        action = rng.randrange(4)
        try:
            if action == 0:
                del node[key]
            elif action == 1:
                node[key] = patch
            elif action == 2 and isinstance(node, dict):
                node[str(patch)[:20]] = node[key]
            elif isinstance(node, list):
                node.append(node[key])
            else:
                node[key] = [node[key], patch]
        except (KeyError, IndexError):
            continue  # an earlier mutation removed the member
    return copy


def with_query(path: str, query: dict[str, str]) -> str:
    from urllib.parse import urlencode

    return f"{path}?{urlencode(query, errors='surrogatepass')}" if query else path


# -- the tests


@BUDGET
@given(
    path=st.sampled_from(list(COLLECTIONS)),
    seed=st.integers(0, 2**32),
    patch=values,
    query=queries,
    user=users,
)
def test_mutated_objects_are_created_or_rejected(
    path: str, seed: int, patch: Any, query: dict[str, str], user: Any, world: World
) -> None:
    rng = random.Random(seed)
    obj = bent(COLLECTIONS[path], rng, patch)
    body = encoded(obj)
    query.pop("watch", None)
    headers = {"Content-Type": "application/json"}
    world.check("POST", with_query(path, query), body, headers, user)
    world.check("PUT", with_query(f"{path}/x", query), body, headers, user)


@BUDGET
@given(
    path=st.sampled_from([f"{p}/x" for p in (CONFIG_MAPS, ACCOUNTS, WIDGETS)]),
    kind=st.sampled_from([MERGE, STRATEGIC, APPLY]),
    patch=st.one_of(values, st.dictionaries(keys, values, max_size=4)),
    query=queries,
)
@example(path=f"{WIDGETS}/x", kind=MERGE, patch={"spec": {"parts": [{"id": None}]}}, query={})
def test_random_patches_apply_or_are_rejected(
    path: str, kind: str, patch: Any, query: dict[str, str], world: World
) -> None:
    if isinstance(patch, dict) and kind == APPLY:
        query = {"fieldManager": "m", **query}
        group = "shop.example.com/v1" if "widgets" in path else "v1"
        patch = {"apiVersion": group, "kind": _kind(path), **patch}
        patch.setdefault("metadata", {"name": "x"})
    headers = {"Content-Type": kind}
    world.check("PATCH", with_query(path, query), encoded(patch), headers, None)


def _kind(path: str) -> str:
    return {"configmaps": "ConfigMap", "serviceaccounts": "ServiceAccount", "widgets": "Widget"}[
        path.split("/")[-2]
    ]


pointers = st.one_of(
    st.sampled_from(
        ["", "/", "/metadata", "/metadata/labels", "/metadata/finalizers/-", "/data/a", "/spec",
         "/spec/tags/0", "/spec/tags/-1", "/spec/parts/9", "/metadata/name", "/kind", "/a~1b", "/~"]
    ),
    st.text(max_size=8),
)  # fmt: skip


@BUDGET
@given(
    path=st.sampled_from([f"{CONFIG_MAPS}/x", f"{WIDGETS}/x", f"{WIDGETS}/x/status"]),
    ops=st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "", 1])},
            optional={"path": pointers, "from": pointers, "value": values},
        ),
        max_size=4,
    ),
)
def test_random_operations_apply_or_are_rejected(path: str, ops: list[Any], world: World) -> None:
    world.check("PATCH", path, encoded(ops), {"Content-Type": JSON_PATCH}, None)


@BUDGET
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"]),
    path=st.one_of(
        st.sampled_from([*COLLECTIONS, *EXTRA_PATHS]),
        st.builds(lambda p, n: f"{p}/{n}", st.sampled_from(list(COLLECTIONS)), names),
        st.lists(names, max_size=7).map(lambda parts: "/" + "/".join(parts)),
    ),
    query=queries,
    body=st.one_of(st.binary(max_size=40), values.map(encoded)),
    content_type=media,
    accept=accepts,
    user=users,
)
def test_random_requests_get_a_response(
    method: str,
    path: str,
    query: dict[str, str],
    body: bytes,
    content_type: str,
    accept: str,
    user: Any,
    world: World,
) -> None:
    headers = {"Content-Type": content_type, "Accept": accept}
    path = path.replace("?", "%3f").replace("#", "%23")
    if method == "DELETE" and path in (CRDS, f"{RBAC}/clusterroles"):
        return  # the remaining steps need them
    world.check(method, with_query(path, query), body, headers, user)


@BUDGET
@given(data=st.binary(max_size=200), content_type=media, path=st.sampled_from(list(COLLECTIONS)))
@example(data=b"\xef\xbb\xbf{}", content_type="application/json", path=CONFIG_MAPS)
@example(
    data=b"k8s\x00\x0a\xff\xff\xff\xff\x0f",
    content_type="application/vnd.kubernetes.protobuf",
    path=CONFIG_MAPS,
)
def test_random_bytes_are_rejected(data: bytes, content_type: str, path: str, world: World) -> None:
    world.check("POST", path, data, {"Content-Type": content_type}, None)


@BUDGET
@given(seed=st.integers(0, 2**32), patch=values)
def test_mutated_schemas_are_installed_or_rejected(seed: int, patch: Any, world: World) -> None:
    rng = random.Random(seed)
    definition = crd("gadgets", "Gadget", schema=bent(SCHEMA, rng, patch))
    headers = {"Content-Type": "application/json"}
    status = world.check("POST", CRDS, encoded(definition), headers, None)
    if status != 201:
        return
    world.run(world.server.running.custom.settled())
    where = WIDGETS.replace("widgets", "gadgets")
    spec = {"size": 3, "name": "ab", "tags": ["t"], "parts": [{"id": "i"}], "port": "x"}
    obj = {
        "apiVersion": "shop.example.com/v1",
        "kind": "Gadget",
        "metadata": {"name": "g"},
        "spec": bent(spec, rng, patch),
    }
    world.check("POST", where, encoded(obj), headers, None)
    world.check("PATCH", f"{where}/g?fieldManager=m", encoded(obj), {"Content-Type": APPLY}, None)
    world.check("GET", "/openapi/v2", b"", {}, None)
    world.check("GET", where, b"", {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}, None)
    world.check("DELETE", f"{CRDS}/gadgets.shop.example.com", b"", {}, None)
    world.run(world.server.running.custom.settled())
