# SPDX-License-Identifier: Apache-2.0
"""Custom resources whose versions are converted by a webhook (here: one in this process).

Version v1 of the CRD has `spec.size`, version v2 `spec.length`; the webhook renames. Objects are
always stored in v2, until the storage version changes.
"""

from collections.abc import Callable
from typing import Any

import pytest
from tests.http.client import CRDS, JSON_PATCH, MERGE, Api, crd

from rdd.api.types import Object
from rdd.apiserver.http.request import Request

URL = "https://127.0.0.1:1/this-run/convert"
GROUP = "shop.example.com"
V1 = f"/apis/{GROUP}/v1/namespaces/default/widgets"
V2 = f"/apis/{GROUP}/v2/namespaces/default/widgets"
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Webhook:
    """Renames spec.size and spec.length; counts calls; can return invalid responses."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.spoil: Callable[[Object], None] = lambda response: None

    async def __call__(self, review: Object, request: Request) -> Object:
        wanted = review["request"]["desiredAPIVersion"]
        objects = review["request"]["objects"]
        self.calls.append(len(objects))
        response = {
            "uid": review["request"]["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [self.convert(o, wanted) for o in objects],
        }
        self.spoil(response)
        return {
            "apiVersion": review["apiVersion"],
            "kind": "ConversionReview",
            "response": response,
        }

    @staticmethod
    def convert(obj: Object, wanted: str) -> Object:
        spec = dict(obj.get("spec") or {})
        old, new = ("size", "length") if wanted.endswith("/v2") else ("length", "size")
        if old in spec:
            spec[new] = spec.pop(old)
        return {**obj, "apiVersion": wanted, "spec": spec}


def definition() -> Object:
    one = {"served": True, "schema": {"openAPIV3Schema": FREE}}
    made = crd(
        versions=[
            {"name": "v1", "storage": False, **one},
            {"name": "v2", "storage": True, **one},
        ]
    )
    made["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": URL}},
    }
    return made


@pytest.fixture
async def webhook(api: Api) -> Webhook:
    found = Webhook()
    api.server.running.endpoints.register("https://127.0.0.1:1/this-run", found)
    await api.install(definition())
    return found


def widget(name: str, version: str = "v1", **spec: Any) -> Object:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


async def test_an_object_is_returned_in_the_version_of_the_request(
    api: Api, webhook: Webhook
) -> None:
    created = await api.post(V1, widget("a", size=3))
    assert (created["apiVersion"], created["spec"]) == (f"{GROUP}/v1", {"size": 3})
    newer = await api.get(f"{V2}/a")
    assert (newer["apiVersion"], newer["spec"]) == (f"{GROUP}/v2", {"length": 3})
    assert newer["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert (await api.get(f"{V1}/a"))["spec"] == {"size": 3}


async def test_a_list_is_converted_in_one_call_and_only_once(api: Api, webhook: Webhook) -> None:
    for name in "abc":
        await api.post(V2, widget(name, "v2", length=1))
    webhook.calls.clear()
    for _ in range(3):
        found = (await api.get(V1))["items"]
        assert [o["spec"] for o in found] == [{"size": 1}] * 3
        assert {o["apiVersion"] for o in found} == {f"{GROUP}/v1"}
    assert webhook.calls == [3]


async def test_patches_apply_to_the_version_of_the_request(api: Api, webhook: Webhook) -> None:
    await api.post(V2, widget("a", "v2", length=1))
    assert (await api.patch(f"{V1}/a", {"spec": {"size": 2}}, MERGE))["spec"] == {"size": 2}
    replaced = [{"op": "replace", "path": "/spec/size", "value": 5}]
    assert (await api.patch(f"{V1}/a", replaced, JSON_PATCH))["spec"] == {"size": 5}
    assert (await api.get(f"{V2}/a"))["spec"] == {"length": 5}


async def test_a_change_of_the_storage_version_leaves_stored_objects_readable(
    api: Api, webhook: Webhook
) -> None:
    await api.post(V1, widget("old", size=1))
    swap = [
        {"op": "replace", "path": "/spec/versions/0/storage", "value": True},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": False},
    ]
    await api.patch(f"{CRDS}/widgets.{GROUP}", swap, JSON_PATCH)
    await api.server.running.custom.settled()
    await api.post(V1, widget("new", size=2))
    specs = {o["metadata"]["name"]: o["spec"] for o in (await api.get(V1))["items"]}
    assert specs == {"old": {"size": 1}, "new": {"size": 2}}
    specs = {o["metadata"]["name"]: o["spec"] for o in (await api.get(V2))["items"]}
    assert specs == {"old": {"length": 1}, "new": {"length": 2}}


async def test_watches_convert_initial_and_live_events(api: Api, webhook: Webhook) -> None:
    await api.post(V2, widget("a", "v2", length=1))
    async with api.watch(V1) as stream:
        first = await stream.next()
        assert (first["type"], first["object"]["spec"]) == ("ADDED", {"size": 1})
        await api.patch(f"{V2}/a", {"spec": {"length": 2}}, MERGE)
        second = await stream.next()
        assert (second["type"], second["object"]["spec"]) == ("MODIFIED", {"size": 2})
        await api.delete(f"{V2}/a")
        third = await stream.next()
        assert (third["type"], third["object"]["spec"]) == ("DELETED", {"size": 2})
        assert third["object"]["apiVersion"] == f"{GROUP}/v1"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        pytest.param(
            lambda r: r.update(result={"status": "Failed", "message": "not today"}),
            "not today",
            id="refused by the webhook",
        ),
        pytest.param(lambda r: r.update(uid="x"), "expected response.uid=", id="another uid"),
        pytest.param(
            lambda r: r.update(convertedObjects=[]),
            "expected 1 converted objects, got 0",
            id="objects missing",
        ),
        pytest.param(
            lambda r: r["convertedObjects"][0].update(apiVersion="x/v9"),
            f"expected apiVersion {GROUP}/v2, got x/v9",
            id="another version",
        ),
        pytest.param(
            lambda r: r["convertedObjects"][0].update(metadata={"name": "b"}),
            "name must not be changed",
            id="another name",
        ),
        pytest.param(
            lambda r: r["convertedObjects"].__setitem__(0, 5), "not an object", id="no object"
        ),
    ],
)
async def test_a_failing_webhook_fails_the_request_and_stores_nothing(
    api: Api, webhook: Webhook, spoil: Callable[[Object], None], message: str
) -> None:
    webhook.spoil = spoil
    status = await api.refused(500, "POST", V1, widget("a", size=1))
    assert status["message"].startswith(f"conversion webhook for {GROUP}/v1, Kind=Widget failed: ")
    assert message in status["message"]
    webhook.spoil = lambda response: None
    await api.refused(404, "GET", f"{V2}/a")
