# SPDX-License-Identifier: Apache-2.0
"""MutatingAdmissionPolicy: changes in CEL, bound to resources and parameters."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.http.admission.admission_world import (
    CONFIG_MAPS,
    REGISTRATION,
    World,
    add,
    patch_of,
)

from rdd.api.types import Object

POLICIES = f"{REGISTRATION}/mutatingadmissionpolicies"
BINDINGS = f"{REGISTRATION}/mutatingadmissionpolicybindings"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DENIED = "policy 'p' with binding 'b' denied request: "


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await World.open()
    yield world
    await world.server.close()


def rules(*resources: str, groups: str = "", operations: tuple[str, ...] = ("*",)) -> Object:
    rule = {
        "apiGroups": [groups],
        "apiVersions": ["v1"],
        "operations": list(operations),
        "resources": list(resources) or ["configmaps"],
    }
    return {"resourceRules": [rule]}


def mutation(expression: str) -> Object:
    if "JSONPatch" in expression:
        return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def label(name: str, value: str = "'yes'") -> str:
    """Return the apply configuration that sets a label."""
    return f"Object{{metadata: Object.metadata{{labels: {{'{name}': {value}}}}}}}"


def spec_of(*expressions: str, **spec: Any) -> Object:
    return {
        "matchConstraints": rules(),
        "reinvocationPolicy": "Never",
        "mutations": [mutation(e) for e in expressions],
        **spec,
    }


async def policy(world: World, *expressions: str, name: str = "p", **spec: Any) -> None:
    body = {"metadata": {"name": name}, "spec": spec_of(*expressions, **spec)}
    await world.make(POLICIES, body)


async def bind(world: World, name: str = "b", **spec: Any) -> None:
    spec = {"policyName": "p", **spec}
    await world.make(BINDINGS, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        pytest.param(label("a/b"), {"labels": {"own": "1", "a/b": "yes"}}, id="apply adds"),
        pytest.param(label("own"), {"labels": {"own": "yes"}}, id="apply replaces"),
        pytest.param(
            "Object{metadata: Object.metadata{?annotations: optional.none()}}",
            {"labels": {"own": "1"}},
            id="apply without a value",
        ),
        pytest.param(
            "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), "
            "value: 'x'}, JSONPatch{op: 'remove', path: '/metadata/labels/own'}]",
            {"labels": {"a/b": "x"}},
            id="patch",
        ),
        pytest.param(
            "[JSONPatch{op: 'test', path: '/metadata/labels/own', value: '2'}, "
            "JSONPatch{op: 'remove', path: '/metadata/labels'}]",
            {"labels": {"own": "1"}},
            id="a failed test skips the patch",
        ),
        pytest.param(
            "has(object.data) ? [JSONPatch{op: 'remove', path: '/data'}] : []",
            {"labels": {"own": "1"}},
            id="empty patch",
        ),
        pytest.param(
            "[JSONPatch{op: 'copy', from: '/metadata/labels/own', path: '/metadata/labels/copy'}]",
            {"labels": {"own": "1", "copy": "1"}},
            id="copy",
        ),
        pytest.param(
            "[JSONPatch{op: 'add', path: '/metadata/annotations', "
            "value: Object.metadata.annotations{a: 'b'}}]",
            {"labels": {"own": "1"}, "annotations": {"a": "b"}},
            id="object as a value",
        ),
    ],
)
async def test_changes_objects(world: World, expression: str, found: Object) -> None:
    await policy(world, expression)
    await bind(world)
    reply = await world.config_map(labels={"own": "1"})
    assert reply.status == 201, reply.body
    meta = reply.body["metadata"]
    assert {k: meta[k] for k in ("labels", "annotations") if k in meta} == found


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        pytest.param(
            "Object{metadata: Object.specx{labels: {'a': 'b'}}}",
            'type mismatch: unexpected type name "Object.specx", expected "Object.metadata", '
            "which matches field name path from root Object type",
            id="type name",
        ),
        pytest.param(
            "Object{nope: 1}",
            "error applying patch: failed to convert patch object to typed object: "
            ".nope: field not declared in schema",
            id="unknown field",
        ),
        pytest.param(
            "Object{metadata: Object.metadata{ownerReferences: "
            "[Object.metadata.ownerReferences{uid: object.nope}]}}",
            "expression 'Object{metadata: Object.metadata{ownerReferences: "
            "[Object.metadata.ownerReferences{uid: object.nope}]}}' resulted in error: "
            "no such key: nope",
            id="evaluation",
        ),
        pytest.param(
            "[JSONPatch{op: 'remove', path: '/nope'}]",
            "JSON Patch: ",
            id="patch that does not apply",
        ),
    ],
)
async def test_failures_reject_the_write_or_are_ignored(
    world: World, expression: str, why: str
) -> None:
    await policy(world, label("before"), expression)
    await bind(world)
    reply = await world.config_map()
    assert (reply.status, reply.body["reason"]) == (403, "Invalid")
    assert reply.message.startswith(DENIED + why), reply.message
    path = f"{POLICIES}/p"
    current = (await world.call("GET", path)).body
    current["spec"]["failurePolicy"] = "Ignore"
    assert (await world.call("PUT", path, current)).status == 200
    reply = await world.config_map()
    assert reply.status == 201, reply.body
    assert "labels" not in reply.body["metadata"], "no mutation of a failed policy is kept"


async def test_atomic_parts_are_not_merged(world: World) -> None:
    constraints = rules("roles", groups="rbac.authorization.k8s.io")
    await policy(
        world, "Object{rules: [Object.rules{verbs: ['get']}]}", matchConstraints=constraints
    )
    await bind(world)
    role = {"metadata": {"name": "r"}, "rules": []}
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    reply = await world.call("POST", path, role)
    assert reply.message == (
        f"{DENIED}error applying patch: invalid ApplyConfiguration: "
        "may not mutate atomic arrays, maps or structs: .rules"
    )


async def test_merges_lists_of_custom_resources_by_key(world: World) -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
    listed = {
        "type": "array",
        "items": {**item, "required": ["name"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    spec = {"type": "object", "properties": {"items": listed}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    crd = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }
    await world.make(CRDS, crd)
    await world.server.custom.settled()
    expression = "Object{spec: Object.spec{items: [Object.spec.items{name: 'b', n: 7}]}}"
    await policy(world, expression, matchConstraints=rules("things", groups="example.com"))
    await bind(world)
    thing = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t"},
        "spec": {"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
    }
    path = "/apis/example.com/v1/namespaces/default/things"
    reply = await world.call("POST", path, thing)
    assert reply.body["spec"]["items"] == [{"name": "a", "n": 1}, {"name": "b", "n": 7}]


async def test_mutations_and_policies_see_earlier_changes(world: World) -> None:
    await policy(
        world,
        label("one", "variables.base"),
        label("two", "object.metadata.labels.one + variables.base"),
        variables=[{"name": "base", "expression": "'v'"}],
    )
    await policy(world, label("three", "object.metadata.labels.two + 'x'"), name="q")
    await bind(world)
    await bind(world, "c", policyName="q")
    reply = await world.config_map()
    assert reply.body["metadata"]["labels"] == {"one": "v", "two": "vv", "three": "vvx"}


async def test_conditions_parameters_and_bindings_select(world: World) -> None:
    await world.make(CONFIG_MAPS, {"metadata": {"name": "params"}, "data": {"value": "p1"}})
    await policy(
        world,
        label("param", "params.data.value"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "c", "expression": "object.metadata.name != 'skipped'"}],
    )
    ref = {"name": "params", "namespace": "default", "parameterNotFoundAction": "Deny"}
    selector = {"matchLabels": {"pick": "me"}}
    await bind(world, paramRef=ref, matchResources={"objectSelector": selector})
    picked = (await world.config_map("a", labels={"pick": "me"})).body["metadata"]["labels"]
    assert picked == {"pick": "me", "param": "p1"}
    skipped = (await world.config_map("skipped", labels={"pick": "me"})).body["metadata"]
    assert skipped["labels"] == {"pick": "me"}
    assert "labels" not in (await world.config_map("b")).body["metadata"]


async def test_missing_parameters_follow_the_binding(world: World) -> None:
    await policy(world, label("a"), paramKind={"apiVersion": "v1", "kind": "ConfigMap"})
    ref = {"name": "none", "parameterNotFoundAction": "Deny"}
    await bind(world, paramRef=ref)
    reply = await world.config_map()
    assert reply.message.startswith(f"{DENIED}failed to configure binding: no params found")


async def test_a_policy_without_binding_and_deletes_are_not_changed(world: World) -> None:
    await policy(world, label("a"))
    assert "labels" not in (await world.config_map()).body["metadata"]
    await bind(world)
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/a")).status == 200


async def test_updates_and_dry_runs_are_changed(world: World) -> None:
    await policy(world, label("op", "request.operation.lowerAscii()"))
    await bind(world)
    dry = await world.config_map(query="dryRun=All")
    assert dry.body["metadata"]["labels"] == {"op": "create"}
    await world.config_map()
    reply = await world.call("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}})
    assert reply.body["metadata"]["labels"] == {"op": "update"}


@pytest.mark.parametrize(
    ("reinvocation", "seen"), [("Never", "none"), ("IfNeeded", "webhook")], ids=["never", "needed"]
)
async def test_runs_again_after_a_webhook_if_needed(
    world: World, reinvocation: str, seen: str
) -> None:
    await policy(
        world,
        label("seen", "has(object.data) ? object.data.by : 'none'"),
        reinvocationPolicy=reinvocation,
    )
    await bind(world)
    hook = {
        "name": "w.example.com",
        "clientConfig": world.hook("w", **patch_of(add("/data", {"by": "webhook"}))),
        "rules": rules()["resourceRules"],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await world.mutating("w", hook)
    reply = await world.config_map()
    assert reply.body["data"] == {"by": "webhook"}
    assert reply.body["metadata"]["labels"] == {"seen": seen}


async def test_policies_do_not_apply_to_policies(world: World) -> None:
    constraints = rules("*", groups="*")
    await policy(world, label("a"), matchConstraints=constraints)
    await bind(world)
    reply = await world.call("GET", f"{POLICIES}/p")
    reply = await world.call("PUT", f"{POLICIES}/p", reply.body)
    assert "labels" not in reply.body["metadata"]


@pytest.mark.parametrize(
    ("change", "field", "detail"),
    [
        pytest.param({"mutations": []}, "spec.mutations", "at least one", id="no mutations"),
        pytest.param({"reinvocationPolicy": ""}, "spec.reinvocationPolicy", "", id="reinvocation"),
        pytest.param(
            {"reinvocationPolicy": "Often"}, "spec.reinvocationPolicy", "Often", id="unknown policy"
        ),
        pytest.param({"matchConstraints": None}, "spec.matchConstraints", "", id="constraints"),
        pytest.param(
            {"mutations": [{"patchType": "Merge"}]},
            "spec.mutations[0].patchType",
            "Merge",
            id="patch type",
        ),
        pytest.param(
            {"mutations": [{"patchType": "JSONPatch"}]},
            "spec.mutations[0].jsonPatch",
            "",
            id="form",
        ),
        pytest.param(
            {"mutations": [mutation("{'a': 1}")]},
            "spec.mutations[0].applyConfiguration.expression",
            "must evaluate to Object but got map(string, int)",
            id="type of an apply configuration",
        ),
        pytest.param(
            {"mutations": [mutation("JSONPatch{op: 'remove', path: '/a'}")]},
            "spec.mutations[0].jsonPatch.expression",
            "must evaluate to list(JSONPatch) but got JSONPatch",
            id="type of a patch",
        ),
        pytest.param(
            {"mutations": [mutation("[JSONPatch{operation: 'remove'}]")]},
            "spec.mutations[0].jsonPatch.expression",
            "undefined field 'operation'",
            id="field of a patch",
        ),
        pytest.param(
            {"mutations": [mutation("Other{a: 1}")]},
            "spec.mutations[0].applyConfiguration.expression",
            "undeclared reference to 'Other'",
            id="unknown type",
        ),
    ],
)
async def test_rejects_invalid_policies(
    world: World, change: Object, field: str, detail: str
) -> None:
    spec = {k: v for k, v in spec_of(label("a"), **change).items() if v is not None}
    reply = await world.call("POST", POLICIES, {"metadata": {"name": "p"}, "spec": spec})
    assert reply.status == 422
    causes = {c["field"]: c["message"] for c in reply.body["details"]["causes"]}
    assert field in causes
    assert detail in causes[field]


async def test_validating_policies_cannot_construct_objects(world: World) -> None:
    body = {
        "metadata": {"name": "v"},
        "spec": {
            "matchConstraints": rules(),
            "validations": [{"expression": "Object{} == object"}],
        },
    }
    reply = await world.call("POST", f"{REGISTRATION}/validatingadmissionpolicies", body)
    assert reply.status == 422
    assert "undeclared reference to 'Object'" in reply.message


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        pytest.param(
            "JSONPatch",
            "[JSONPatch{op: 'add', path: '/data', value: {'a': variables.v40}}]",
            id="json-patch",
        ),
        pytest.param(
            "ApplyConfiguration", "Object{data: {'a': variables.v40}}", id="apply-configuration"
        ),
    ],
)
async def test_result_that_contains_a_value_too_often_is_rejected(
    world: World, kind: str, expression: str
) -> None:
    variables = [{"name": "v0", "expression": "['a']"}]
    variables += [
        {"name": f"v{i}", "expression": f"[variables.v{i - 1}, variables.v{i - 1}]"}
        for i in range(1, 41)
    ]
    field = "jsonPatch" if kind == "JSONPatch" else "applyConfiguration"
    mutations = [{"patchType": kind, field: {"expression": expression}}]
    await policy(world, variables=variables, mutations=mutations)
    await bind(world)
    reply = await world.config_map()
    assert reply.status == 403
    assert "the result is larger than 3145728 bytes" in reply.body["message"]
