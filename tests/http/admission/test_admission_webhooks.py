# SPDX-License-Identifier: Apache-2.0
"""Webhooks in the process of the server: selection, requests, order and effects."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.http.admission.admission_world import (
    ADMIN,
    CONFIG_MAPS,
    REGISTRATION,
    World,
    add,
    patch_of,
    respond,
    webhook,
)

from rdd.api.types import Object
from rdd.apiserver.admission import in_process_webhooks
from rdd.apiserver.admission.client import CallFailed, WebhookClient, WebhookEndpoint
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.request import Request, User


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await World.open()
    yield world
    await world.server.close()


# -- requests to webhooks


async def test_a_create_is_sent_with_the_object_to_store(world: World) -> None:
    await world.validating("v", webhook("h", world.hook("h")))
    created = (await world.config_map(data={"k": "v"}, query="fieldManager=me")).body
    (seen,) = world.seen("h")
    config_map = {"group": "", "version": "v1", "kind": "ConfigMap"}
    config_maps = {"group": "", "version": "v1", "resource": "configmaps"}
    meta = dict(created["metadata"])
    meta.pop("resourceVersion")
    seen.pop("uid")
    assert seen == {
        "kind": config_map,
        "resource": config_maps,
        "requestKind": config_map,
        "requestResource": config_maps,
        "name": "a",
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": {**created, "metadata": meta},
        "oldObject": None,
        "dryRun": False,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "me",
        },
    }


async def test_a_patch_is_sent_as_an_update_with_both_objects(world: World) -> None:
    await world.config_map(data={"k": "v"})
    await world.validating("v", webhook("h", world.hook("h")))
    media = "application/apply-patch+yaml"
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"z": "1"}}
    reply = await world.call(
        "PATCH", f"{CONFIG_MAPS}/a", obj, media=media, query="fieldManager=me&force=true"
    )
    assert reply.status == 200
    (seen,) = world.seen("h")
    assert seen["operation"] == "UPDATE"
    assert seen["oldObject"]["data"] == {"k": "v"}
    assert seen["object"]["data"] == {"k": "v", "z": "1"}
    assert seen["options"] == {
        "kind": "UpdateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "me",
    }


async def test_mutating_webhooks_are_called_before_the_version_is_compared(world: World) -> None:
    await world.config_map(data={"k": "v"})
    await world.mutating("m", webhook("h", world.hook("h")))
    await world.validating("v", webhook("after", world.hook("after")))
    stale = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"k": "w"}}
    assert (await world.call("PUT", f"{CONFIG_MAPS}/a", stale)).status == 409
    assert [s["operation"] for s in world.seen("h")] == ["UPDATE"]
    assert world.seen("after") == []


async def test_a_delete_is_sent_with_the_old_object_only(world: World) -> None:
    stored = (await world.config_map()).body
    await world.validating("v", webhook("h", world.hook("h")))
    await world.call("DELETE", f"{CONFIG_MAPS}/a", query="propagationPolicy=Background")
    (seen,) = world.seen("h")
    assert (seen["operation"], seen["name"]) == ("DELETE", "a")
    assert (seen["object"], seen["oldObject"]) == (None, stored)
    assert seen["options"]["kind"] == "DeleteOptions"
    assert seen["options"]["propagationPolicy"] == "Background"


async def test_deleting_a_collection_sends_each_object_without_its_name(world: World) -> None:
    for name in ("a", "b"):
        await world.config_map(name)
    await world.validating("v", webhook("h", world.hook("h")))
    await world.call("DELETE", CONFIG_MAPS)
    assert [s["oldObject"]["metadata"]["name"] for s in world.seen("h")] == ["a", "b"]
    assert not any("name" in s for s in world.seen("h"))


async def test_a_namespace_counts_as_inside_itself(world: World) -> None:
    await world.validating("v", webhook("h", world.hook("h"), resources=["namespaces"]))
    await world.call("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    await world.call("DELETE", "/api/v1/namespaces/team")
    assert [(s["operation"], s["name"], s["namespace"]) for s in world.seen("h")] == [
        ("CREATE", "team", "team"),
        ("DELETE", "team", "team"),
    ]


async def test_what_only_the_server_sets_is_removed_before_admission(world: World) -> None:
    await world.mutating("m", webhook("h", world.hook("h")))
    system: Object = {
        "uid": "mine",
        "selfLink": "/x",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
    }
    await world.make(CONFIG_MAPS, {"metadata": {"name": "a", **system}})
    (seen,) = world.seen("h")
    assert not system.keys() & seen["object"]["metadata"].keys()


async def test_a_generated_name_is_sent_to_validating_webhooks_only(world: World) -> None:
    await world.mutating("m", webhook("m", world.hook("m")))
    await world.validating("v", webhook("v", world.hook("v")))
    obj = {"metadata": {"generateName": "a-"}}
    created = await world.make(CONFIG_MAPS, obj)
    assert "name" not in world.seen("m")[0]
    assert world.seen("v")[0]["name"] == created["metadata"]["name"]


async def test_scale_is_sent_and_patched_as_a_scale(world: World) -> None:
    path = await world.crd("v1")
    await world.make(path, _widget(spec={"x": 1, "replicas": 2}))
    rule = {"group": "example.com", "resources": ["widgets/scale"]}
    patch = patch_of({"op": "replace", "path": "/spec/replicas", "value": 7})
    await world.mutating("m", webhook("m", world.hook("m", **patch), **rule))
    await world.validating("v", webhook("v", world.hook("v"), **rule))
    reply = await world.call(
        "PATCH", f"{path}/a/scale", {"spec": {"replicas": 3}}, media="application/merge-patch+json"
    )
    assert reply.body["spec"] == {"replicas": 7}
    (first,), (second,) = world.seen("m"), world.seen("v")
    assert first["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert first["subResource"] == first["requestSubResource"] == "scale"
    assert first["object"]["spec"] == {"replicas": 3}
    assert first["oldObject"]["spec"] == {"replicas": 2}
    assert second["object"]["spec"] == {"replicas": 7}
    stored = await world.call("GET", f"{path}/a")
    assert stored.body["spec"] == {"x": 1, "replicas": 7}


async def test_a_scale_has_no_labels_to_select_by(world: World) -> None:
    path = await world.crd("v1")
    obj = _widget(spec={"replicas": 2})
    obj["metadata"]["labels"] = {"a": "b"}
    await world.make(path, obj)
    rule = {"group": "example.com", "resources": ["widgets/*"]}
    selector = {"objectSelector": {"matchLabels": {"a": "b"}}}
    await world.validating("v", webhook("h", world.hook("h"), **rule, **selector))
    media = "application/merge-patch+json"
    for below in ("/scale", "/status"):
        await world.call("PATCH", f"{path}/a{below}", {"spec": {"replicas": 3}}, media=media)
    assert [s["subResource"] for s in world.seen("h")] == ["status"]


def _widget(**members: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        **members,
    }


@pytest.mark.parametrize(
    ("policy", "shown"),
    [pytest.param("Equivalent", ["v1"], id="equivalent"), pytest.param("Exact", [], id="exact")],
)
async def test_another_version_is_converted_or_not_matched(
    world: World, policy: str, shown: list[str]
) -> None:
    path = await world.crd("v1", "v2")
    hook = webhook(
        "h", world.hook("h"), group="example.com", resources=["widgets"], versions=["v1"]
    )
    await world.validating("v", {**hook, "matchPolicy": policy})
    obj = {**_widget(spec={"x": 1}), "apiVersion": "example.com/v2"}
    await world.make(path.replace("/v1/", "/v2/"), obj)
    assert [s["resource"]["version"] for s in world.seen("h")] == shown
    for seen in world.seen("h"):
        assert seen["requestResource"]["version"] == "v2"
        assert seen["object"]["apiVersion"] == "example.com/v1"


async def test_a_conversion_webhook_creates_the_version_of_the_webhook(world: World) -> None:
    async def convert(review: Object, request: Request) -> Object:
        sent = review["request"]
        version = sent["desiredAPIVersion"]
        objects = [
            {**obj, "apiVersion": version, "spec": {"x": obj["spec"]["x"] + 1}}
            for obj in sent["objects"]
        ]
        response = {
            "uid": sent["uid"],
            "result": {"status": "Success"},
            "convertedObjects": objects,
        }
        return {**review, "response": response}

    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": world.hook("convert", convert),
            "conversionReviewVersions": ["v1"],
        },
    }
    path = await world.crd("v1", "v2", "v3", conversion=conversion)
    rule = {"group": "example.com", "resources": ["widgets"], "versions": ["v3"]}
    patch = patch_of({"op": "replace", "path": "/spec/x", "value": 10})
    await world.mutating("m", webhook("m", world.hook("m", **patch), **rule))
    obj = {**_widget(spec={"x": 1}), "apiVersion": "example.com/v2"}
    created = await world.make(path.replace("/v1/", "/v2/"), obj)
    (seen,) = world.seen("m")
    assert (seen["object"]["apiVersion"], seen["object"]["spec"]) == ("example.com/v3", {"x": 2})
    # Each conversion counts: to v2 for the pipeline, v1 for the store, v2 for the response.
    assert (created["apiVersion"], created["spec"]) == ("example.com/v2", {"x": 13})


async def test_events_are_equivalent_across_groups(world: World) -> None:
    hook = webhook("h", world.hook("h"), group="events.k8s.io", resources=["events"])
    await world.validating("v", hook)
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "reason": "R",
        "message": "text",
    }
    await world.make("/api/v1/namespaces/default/events", event)
    (seen,) = world.seen("h")
    assert seen["kind"] == {"group": "events.k8s.io", "version": "v1", "kind": "Event"}
    assert seen["object"]["note"] == "text"
    assert seen["requestKind"]["group"] == ""


# -- selection


async def test_namespace_labels_select_webhooks(world: World) -> None:
    selector = {"namespaceSelector": {"matchLabels": {"team": "x"}}}
    await world.validating(
        "v", webhook("h", world.hook("h"), resources=["configmaps", "namespaces"], **selector)
    )
    await world.config_map()
    assert world.calls == []
    meta = {"name": "n", "labels": {"team": "x"}}
    await world.make("/api/v1/namespaces", {"metadata": meta})
    await world.make("/api/v1/namespaces/n/configmaps", {"metadata": {"name": "a"}})
    assert [s["resource"]["resource"] for s in world.seen("h")] == ["namespaces", "configmaps"]


async def test_conditions_select_webhooks_and_errors_follow_the_failure_policy(
    world: World,
) -> None:
    def hook(name: str, expression: str, policy: str) -> Object:
        return webhook(
            name,
            world.hook(name),
            matchConditions=[{"name": "c", "expression": expression}],
            failurePolicy=policy,
        )

    await world.validating(
        "v",
        hook("yes", "object.metadata.name == 'a' && request.operation == 'CREATE'", "Fail"),
        hook("no", "request.userInfo.username == 'nobody'", "Fail"),
        hook("open", "object.nope == 1", "Ignore"),
        hook("may", "authorizer.group('').resource('secrets').check('get').allowed()", "Fail"),
    )
    assert (await world.config_map()).status == 201
    assert sorted(world.order) == ["may", "yes"]
    await world.validating("w", hook("closed", "object.data.nope == 1", "Fail"))
    refused = await world.config_map("b")
    assert refused.status == 403
    assert refused.message == (
        "configmaps \"b\" is forbidden: expression 'object.data.nope == 1' resulted in error: "
        "no such key: data"
    )


async def test_configurations_are_never_sent_to_webhooks(world: World) -> None:
    everything = webhook("h", world.hook("h", allowed=False), resources=["*/*"], group="*")
    await world.validating("v", everything)
    await world.mutating("m")
    reply = await world.call("DELETE", f"{REGISTRATION}/validatingwebhookconfigurations/v")
    assert reply.status == 200
    assert world.calls == []


async def test_a_changed_configuration_takes_effect_with_the_next_request(world: World) -> None:
    await world.validating("v", webhook("h", world.hook("h", allowed=False)))
    assert (await world.config_map()).status == 400
    path = f"{REGISTRATION}/validatingwebhookconfigurations/v"
    patch = [{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["DELETE"]}]
    await world.call("PATCH", path, patch, media="application/json-patch+json")
    assert (await world.config_map()).status == 201
    await world.call("DELETE", path)
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/a")).status == 200


# -- mutation


async def test_mutating_webhooks_run_by_configuration_name_and_position(world: World) -> None:
    def hook(name: str) -> Object:
        return webhook(name, world.hook(name, **patch_of(add(f"/data/{name}", name))))

    await world.mutating("z", hook("third"))
    await world.mutating("a", hook("first"), hook("second"))
    reply = await world.config_map(data={"k": "v"})
    assert world.order == ["first", "second", "third"]
    assert reply.body["data"] == {"k": "v", "first": "first", "second": "second", "third": "third"}
    assert world.seen("third")[0]["object"]["data"] == {
        "k": "v",
        "first": "first",
        "second": "second",
    }


async def test_a_webhook_with_reinvocation_is_called_again_after_a_change(world: World) -> None:
    await world.mutating(
        "m",
        webhook("keen", world.hook("keen"), reinvocationPolicy="IfNeeded"),
        webhook("shy", world.hook("shy")),
        webhook("change", world.hook("change", **patch_of(add("/data", {"k": "v"})))),
        webhook("late", world.hook("late"), reinvocationPolicy="IfNeeded"),
    )
    await world.config_map()
    assert world.order == ["keen", "shy", "change", "late", "keen"]
    assert world.seen("keen")[1]["object"]["data"] == {"k": "v"}


async def test_a_patch_without_effect_causes_no_reinvocation(world: World) -> None:
    same = patch_of({"op": "replace", "path": "/metadata/name", "value": "a"})
    await world.mutating(
        "m",
        webhook("keen", world.hook("keen"), reinvocationPolicy="IfNeeded"),
        webhook("noop", world.hook("noop", **same)),
    )
    await world.config_map()
    assert world.order == ["keen", "noop"]


async def test_the_result_of_mutation_is_pruned_defaulted_and_validated(world: World) -> None:
    path = await world.crd("v1")
    patch = patch_of(add("/spec/unknown", 1), add("/spec/o", {}))
    rule = {"group": "example.com", "resources": ["widgets"], "operations": ["CREATE"]}
    await world.mutating("m", webhook("h", world.hook("h", **patch), **rule))
    created = await world.make(path, _widget(spec={"x": 1}))
    assert created["spec"] == {"x": 1, "o": {"d": "dd"}}
    await world.mutating(
        "n", webhook("i", world.hook("i", **patch_of(add("/spec/x", "t"))), **rule)
    )
    obj = _widget(spec={"x": 1})
    obj["metadata"]["name"] = "b"
    reply = await world.call("POST", path, obj)
    assert reply.status == 422
    assert "spec.x in body must be of type integer" in reply.message


async def test_a_token_request_is_sent_and_patched_as_one(tmp_path: Path) -> None:
    world = await World.open(signing_key=certificates.ensure_signing_key(tmp_path))
    path = "/api/v1/namespaces/default/serviceaccounts"
    await world.make(path, {"metadata": {"name": "bob"}})
    rule = {"resources": ["serviceaccounts/token"]}
    patch = patch_of(add("/spec/audiences", ["theirs"]))
    await world.mutating("m", webhook("m", world.hook("m", **patch), **rule))
    await world.validating("v", webhook("v", world.hook("v"), **rule))
    sent = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    reply = await world.call("POST", f"{path}/bob/token", sent)
    assert reply.body["spec"]["audiences"] == ["theirs"]
    seen = world.seen("v")[0]
    assert seen["kind"]["kind"] == "TokenRequest"
    assert (seen["resource"]["resource"], seen["subResource"]) == ("serviceaccounts", "token")
    assert (seen["name"], seen["object"]["spec"]["audiences"]) == ("bob", ["theirs"])
    await world.server.close()


async def test_rejects_a_patch_of_a_delete(world: World) -> None:
    await world.config_map()
    hook = world.hook("h", **patch_of(add("/data", {})))
    await world.mutating("m", webhook("h", hook, operations=["DELETE"]))
    reply = await world.call("DELETE", f"{CONFIG_MAPS}/a")
    assert reply.status == 500
    assert reply.message == (
        'Internal error occurred: admission webhook "h.example.com" attempted to modify the '
        "object, which is not supported for this operation"
    )


async def test_invalid_ownership_of_a_webhook_is_reverted_with_a_warning(world: World) -> None:
    spoiled = patch_of(add("/metadata/managedFields", [{"manager": "x", "operation": "Nope"}]))
    await world.mutating("m", webhook("h", world.hook("h", **spoiled)))
    reply = await world.config_map(data={"k": "v"})
    assert reply.status == 201
    assert [m["manager"] for m in reply.body["metadata"]["managedFields"]] == ["test"]
    assert "was in an invalid state after admission" in reply.warnings[0]


# -- responses


async def test_the_first_denial_by_name_wins_and_all_webhooks_are_called(world: World) -> None:
    def denying(name: str) -> Object:
        return webhook(name, world.hook(name, allowed=False, status={"message": name}))

    await world.validating("b", denying("later"))
    await world.validating("a", denying("sooner"), webhook("fine", world.hook("fine")))
    reply = await world.config_map()
    assert reply.message == 'admission webhook "sooner.example.com" denied the request: sooner'
    assert sorted(world.order) == ["fine", "later", "sooner"]


async def test_warnings_reach_the_client_of_allowed_and_denied_requests(world: World) -> None:
    await world.mutating("m", webhook("m", world.hook("m", warnings=["one", "two"])))
    await world.validating(
        "v",
        webhook("v", world.hook("v", warnings=["two", "three"])),
        webhook("w", world.hook("w", allowed=False, warnings=["four"])),
    )
    reply = await world.config_map()
    assert reply.status == 400
    assert reply.warnings == [f'299 - "{text}"' for text in ("one", "two", "three", "four")]


async def test_audit_annotations_are_kept_under_the_name_of_the_webhook(world: World) -> None:
    patch = patch_of(add("/data", {"k": "v"}))
    await world.mutating(
        "m", webhook("h", world.hook("h", auditAnnotations={"why": "because"}, **patch))
    )
    reply = await world.config_map()
    assert reply.annotations["h.example.com/why"] == "because"
    assert reply.annotations["mutation.webhook.admission.k8s.io/round_0_index_0"] == (
        '{"configuration":"m","webhook":"h.example.com","mutated":true}'
    )


@pytest.mark.parametrize("kind", ["mutating", "validating"])
async def test_failure_policy_decides_about_unreachable_webhooks(world: World, kind: str) -> None:
    async def broken(review: Object, request: Request) -> Object:
        raise RuntimeError("oops")

    await world.configure(kind, "a", webhook("i", world.hook("i", broken), failurePolicy="Ignore"))
    reply = await world.config_map()
    assert reply.status == 201
    assert any(key.startswith("failed-open.") for key in reply.annotations)
    await world.configure(kind, "b", webhook("f", world.hook("f", broken), failurePolicy="Fail"))
    reply = await world.config_map("b")
    assert (reply.status, reply.body["reason"]) == (500, "InternalError")
    assert reply.message.startswith(
        'Internal error occurred: failed calling webhook "f.example.com": failed to call webhook: '
    )


async def test_a_service_cannot_be_resolved(world: World) -> None:
    client = {"service": {"name": "hook", "namespace": "team", "path": "/check"}}
    await world.validating("v", webhook("h", client))
    reply = await world.config_map()
    assert reply.message.endswith(
        'failed to call webhook: Post "https://hook.team.svc:443/check?timeout=10s": '
        'service "hook" not found'
    )


async def test_a_slow_handler_times_out() -> None:
    async def stuck(review: Object, request: Request) -> Object:
        await asyncio.Event().wait()
        raise AssertionError

    here = in_process_webhooks.InProcessEndpoints()
    here.register("https://here/run", stuck)
    sent = Request("POST", "/", headers={})
    with pytest.raises(CallFailed, match="context deadline exceeded"):
        await WebhookClient(here).call(
            WebhookEndpoint("https://here/run/h"), {}, timeout_s=0, request=sent
        )
    assert in_process_webhooks.depth.get() == 0


# -- re-entrant requests


async def test_requests_of_a_handler_are_sent_to_webhooks(world: World) -> None:
    async def creates_another(review: Object, request: Request) -> Object:
        assert in_process_webhooks.depth.get() == request.depth + 1
        if review["request"]["name"] == "a":
            path = "/api/v1/namespaces/default/secrets"
            obj = {"metadata": {"name": "s"}}
            made = await world.call("POST", path, obj, depth=request.depth + 1)
            assert made.status == 201
        return respond(review)

    await world.mutating("m", webhook("h", world.hook("h", creates_another)))
    await world.validating("v", webhook("s", world.hook("s"), resources=["secrets"]))
    assert (await world.config_map()).status == 201
    assert world.order == ["h", "s"]
    assert in_process_webhooks.depth.get() == 0


async def test_recursion_of_webhooks_is_limited(world: World) -> None:
    async def endless(review: Object, request: Request) -> Object:
        obj = {"metadata": {"generateName": "a-"}}
        made = await world.call("POST", CONFIG_MAPS, obj, depth=request.depth + 1)
        return respond(review, allowed=made.status == 201, status={"message": made.message})

    await world.mutating("m", webhook("h", world.hook("h", endless)))
    reply = await world.config_map()
    assert reply.status == 400
    assert "admission has nested more than" in reply.message
    assert len(world.calls) < 20


async def test_the_user_of_the_request_is_sent(world: World) -> None:
    await world.validating("v", webhook("h", world.hook("h")))
    user = User("eve", ("system:masters",), uid="u", extra={"k": ("v",)})
    await world.call("POST", CONFIG_MAPS, {"metadata": {"name": "a"}}, user=user)
    assert world.seen("h")[0]["userInfo"] == {
        "username": "eve",
        "uid": "u",
        "groups": ["system:masters"],
        "extra": {"k": ["v"]},
    }
    assert ADMIN.name != user.name


# -- dry run


@pytest.mark.parametrize("side_effects", ["None", "NoneOnDryRun"])
async def test_a_dry_run_calls_webhooks_without_side_effects(
    world: World, side_effects: str
) -> None:
    hook = {**webhook("h", world.hook("h")), "sideEffects": side_effects}
    await world.validating("v", hook)
    assert (await world.config_map(query="dryRun=All")).status == 201
    assert world.seen("h")[0]["dryRun"] is True
    assert world.seen("h")[0]["options"]["dryRun"] == ["All"]
