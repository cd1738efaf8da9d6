# SPDX-License-Identifier: Apache-2.0
"""Webhooks with arbitrary responses: every write is stored or rejected, the server stays healthy.

Responses are generated around the shape of a valid one, because random data never passes the first
check. The budget is fixed; `make soak` runs more.
"""

import asyncio
import base64
import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.http.admission.admission_world import Reply, World, webhook

from rdd.api.types import Object
from rdd.apiserver.http.request import Request

_scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
    | st.text(max_size=8)
)  # fmt: skip
_json = st.recursive(
    _scalars,
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children, max_size=3)
    ),
    max_leaves=8,
)
_names = st.sampled_from(
    ["metadata", "name", "namespace", "labels", "uid", "managedFields", "data", "k", "kind",
     "apiVersion", "spec", "x", "o", "finalizers", "0", "-", "ownerReferences", ""]
)  # fmt: skip
_pointers = st.lists(_names, max_size=4).map(lambda names: "".join(f"/{n}" for n in names))
_operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])},
    optional={"path": _pointers, "from": _pointers, "value": _json},
)
_patches = st.lists(_operations, max_size=4).map(
    # The standard library also encodes integers beyond 64 bits, unlike orjson.
    lambda patch: base64.b64encode(json.dumps(patch).encode()).decode()
)
_statuses = st.fixed_dictionaries(
    {},
    optional={
        "code": st.integers(-1, 1100) | _json,
        "message": _json,
        "reason": _json,
        "details": st.fixed_dictionaries(
            {}, optional={"causes": st.lists(_json, max_size=2), "retryAfterSeconds": _json}
        )
        | _json,
    },
)
_responses = st.fixed_dictionaries(
    {"allowed": st.booleans() | _json},
    optional={
        "patch": _patches | st.text(max_size=10) | _json,
        "patchType": st.just("JSONPatch") | _json,
        "status": _statuses | _json,
        "warnings": st.lists(st.text(max_size=300) | _json, max_size=5) | _json,
        "auditAnnotations": st.dictionaries(st.text(max_size=5), _json, max_size=2) | _json,
        "uid": _json,
    },
)
_reviews = st.fixed_dictionaries(
    {"response": _responses | _json}, optional={"kind": _json, "apiVersion": _json}
)
_bodies = _reviews | _json


def _encodable(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


class Hostile:
    """A server whose webhooks of both kinds return given responses."""

    def __init__(self) -> None:
        self.response: Any = None
        self.world: World

    async def open(self) -> None:
        self.world = await World.open()
        self.path = await self.world.crd("v1")
        for kind in ("mutating", "validating"):
            client = self.world.hook(kind, self._handle)
            await self.world.configure(
                kind,
                kind,
                webhook("c", client),
                webhook("w", client, group="example.com", resources=["widgets"]),
            )

    async def _handle(self, review: Object, request: Request) -> Any:
        response = self.response
        if not isinstance(response, dict):
            return response
        response = {"kind": "AdmissionReview", "apiVersion": review["apiVersion"], **response}
        if isinstance(response.get("response"), dict):
            response["response"] = {"uid": review["request"]["uid"], **response["response"]}
        return response

    async def write(self, response: Any) -> list[Reply]:
        self.response = response
        self.world.calls.clear()
        widget = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"generateName": "a-"},
            "spec": {"x": 1},
        }
        return [
            await self.world.call(
                "POST",
                "/api/v1/namespaces/default/configmaps",
                {"metadata": {"generateName": "a-"}, "data": {"k": "v"}},
                query="dryRun=All",
            ),
            await self.world.call("POST", self.path, widget, query="dryRun=All"),
        ]


@pytest.fixture(scope="module")
def loop() -> Any:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def hostile(loop: asyncio.AbstractEventLoop) -> Any:
    hostile = Hostile()
    loop.run_until_complete(hostile.open())
    yield hostile
    loop.run_until_complete(hostile.world.server.close())


@settings(max_examples=200, deadline=None)
@given(response=_bodies.filter(_encodable))
def test_any_webhook_response_ends_in_a_status_or_a_stored_object(
    hostile: Hostile, loop: asyncio.AbstractEventLoop, response: Any
) -> None:
    for reply in loop.run_until_complete(hostile.write(response)):
        assert reply.status == 201 or 400 <= reply.status <= 999
        if reply.status >= 400:
            assert reply.body["kind"] == "Status"
            assert "the request caused an error in the server" not in reply.message
        assert sum(map(len, reply.warnings)) < 6000


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            [{"op": "add", "path": "/data/k", "value": "x" * 2_000_000}],
            "Too long: may not be more than 1048576 bytes",
            id="large-value",
        ),
        pytest.param(
            [{"op": "copy", "from": "/metadata", "path": f"/data/{i}"} for i in range(10_001)],
            "received undecodable patch in webhook response: Request entity too large",
            id="many-operations",
        ),
        pytest.param(
            [{"op": "add", "path": "/data/k", "value": "x" * 500_000}]
            + [{"op": "copy", "from": "/data/k", "path": f"/data/{i}"} for i in range(1_000)],
            "Internal error occurred: Unable to complete the copy, the accumulated size increase",
            id="growing-by-copies",
        ),
        pytest.param(
            [{"op": "add", "path": "/data" + "/a" * 1000, "value": 1}],
            "received undecodable patch in webhook response: the object is nested too deeply",
            id="deep-path",
        ),
        pytest.param(
            [{"op": "add", "path": "/data/k", "value": orjson.loads("[" * 240 + "]" * 240)}],
            "",
            id="deep-value",
        ),
    ],
)
def test_rejects_patches_that_expand_an_object_excessively(
    hostile: Hostile, loop: asyncio.AbstractEventLoop, patch: list[Object], message: str
) -> None:
    text = base64.b64encode(orjson.dumps(patch)).decode()
    response = {"allowed": True, "patch": text, "patchType": "JSONPatch"}
    reply, _ = loop.run_until_complete(hostile.write({"response": response}))
    assert reply.status >= 400
    assert message in reply.message
    assert "the request caused an error in the server" not in reply.message
