# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicy: validations in CEL, bound to resources and parameters."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from tests.http.admission.admission_world import CONFIG_MAPS, REGISTRATION, World

from rdd.api.types import Object
from rdd.apiserver import offload
from rdd.apiserver.admission.evaluation import Evaluator
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.http.request import User

POLICIES = f"{REGISTRATION}/validatingadmissionpolicies"
BINDINGS = f"{REGISTRATION}/validatingadmissionpolicybindings"
DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = await World.open()
    yield world
    await world.server.close()


def rules(*resources: str, **members: Any) -> Object:
    rule = {
        "apiGroups": members.pop("groups", [""]),
        "apiVersions": members.pop("versions", ["v1"]),
        "operations": members.pop("operations", ["*"]),
        "resources": list(resources) or ["configmaps"],
        **members,
    }
    return {"resourceRules": [rule]}


async def policy(world: World, *validations: Object | str, name: str = "p", **spec: Any) -> None:
    found = [{"expression": v} if isinstance(v, str) else v for v in validations]
    spec = {"matchConstraints": rules(), **spec}
    if found:
        spec["validations"] = found
    await world.make(POLICIES, {"metadata": {"name": name}, "spec": spec})


async def bind(world: World, *actions: str, name: str = "b", **spec: Any) -> None:
    spec = {"policyName": "p", "validationActions": list(actions) or ["Deny"], **spec}
    await world.make(BINDINGS, {"metadata": {"name": name}, "spec": spec})


@pytest.mark.parametrize(
    ("validation", "status", "message"),
    [
        pytest.param("true", 201, "", id="holds"),
        pytest.param(" 1 > 2 ", 422, "failed expression: 1 > 2", id="fails"),
        pytest.param({"expression": "false", "message": " say why "}, 422, "say why", id="message"),
        pytest.param(
            {"expression": "false", "messageExpression": "'no ' + object.metadata.name"},
            422,
            "no a",
            id="message-expression",
        ),
        pytest.param(
            {
                "expression": "false",
                "messageExpression": "string(object.nope)",
                "message": "instead",
            },
            422,
            "instead",
            id="message-expression-without-value",
        ),
        pytest.param(
            {"expression": "false", "messageExpression": "'two\\nlines'", "message": "instead"},
            422,
            "instead",
            id="message-of-two-lines",
        ),
        pytest.param(
            {"expression": "false", "message": "m", "reason": "Forbidden"}, 403, "m", id="reason"
        ),
        pytest.param(
            {"expression": "false", "message": "m", "reason": "RequestEntityTooLarge"},
            413,
            "m",
            id="reason-413",
        ),
        pytest.param(
            "object.nope == 1",
            422,
            "expression 'object.nope == 1' resulted in error: no such key: nope",
            id="no-value",
        ),
        pytest.param(
            "lists.range(10000).all(x, lists.range(1000).all(y, y >= 0))",
            422,
            "expression 'lists.range(10000).all(x, lists.range(1000).all(y, y >= 0))' resulted in "
            "error: operation cancelled: actual cost limit exceeded",
            id="too-expensive",
        ),
    ],
)
async def test_a_validation_allows_or_rejects_with_its_message(
    world: World, validation: Object | str, status: int, message: str
) -> None:
    await policy(world, validation)
    await bind(world)
    reply = await world.config_map()
    assert reply.status == status, reply.body
    if message:
        assert reply.message == f'configmaps "a" is forbidden: {DENIED}{message}'
        assert reply.body["details"]["causes"] == [{"message": DENIED + message}]


@pytest.mark.parametrize(
    "expression",
    [
        "object.data.k == 'v' && oldObject == null",
        "request.operation == 'CREATE' && request.name == 'a' && request.namespace == 'default'",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
        "request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups",
        "request.options.kind == 'CreateOptions' && !request.dryRun",
        "!has(request.subResource)",
        "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
        "namespaceObject.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')",
        "authorizer.requestResource.check('delete').allowed()",
        "!authorizer.serviceAccount('default', 'x').group('').resource('secrets')"
        ".namespace('default').check('get').allowed()",
        "authorizer.path('/metrics').check('get').allowed()",
    ],
)
async def test_expressions_access_the_write_and_its_context(world: World, expression: str) -> None:
    await policy(world, expression)
    await bind(world)
    reply = await world.config_map(data={"k": "v"})
    assert reply.status == 201, reply.message


async def test_the_authorizer_evaluates_the_user_of_the_request(world: World) -> None:
    await policy(world, "authorizer.group('').resource('secrets').check('get').allowed()")
    await bind(world)
    group = "rbac.authorization.k8s.io"
    path = f"/apis/{group}/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    await world.make(f"{path}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
    await world.make(
        f"{path}/rolebindings",
        {
            "metadata": {"name": "bob"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
        },
    )
    obj = {"metadata": {"name": "b"}}
    reply = await world.call("POST", CONFIG_MAPS, obj, user=User("bob"))
    assert (reply.status, DENIED in reply.message) == (422, True)


async def test_updates_and_deletes_are_validated_with_the_old_object(world: World) -> None:
    await world.config_map(labels={"lock": "on"})
    await policy(
        world, "oldObject == null || oldObject.metadata.?labels['lock'].orValue('') != 'on'"
    )
    await bind(world)
    patch = {"data": {"k": "v"}}
    media = "application/merge-patch+json"
    assert (await world.call("PATCH", f"{CONFIG_MAPS}/a", patch, media=media)).status == 422
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/a")).status == 422
    collection = await world.call("DELETE", CONFIG_MAPS)
    assert collection.message.startswith('configmaps "Unknown" is forbidden: ')


async def test_a_namespace_has_no_namespace_object(world: World) -> None:
    await policy(world, "namespaceObject == null", matchConstraints=rules("namespaces"))
    await bind(world)
    await world.make("/api/v1/namespaces", {"metadata": {"name": "n"}})


async def test_warn_and_audit_allow_a_write(world: World) -> None:
    await policy(world, {"expression": "false", "message": "hm"})
    await bind(world, "Warn", "Audit")
    reply = await world.config_map()
    assert reply.status == 201
    assert reply.warnings == [
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': hm\""
    ]
    noted = reply.annotations["validation.policy.admission.k8s.io/validation_failure"]
    assert orjson.loads(noted) == [
        {
            "message": "hm",
            "policy": "p",
            "binding": "b",
            "expressionIndex": 0,
            "validationActions": ["Warn", "Audit"],
        }
    ]


@pytest.mark.parametrize(
    ("failure_policy", "status"),
    [pytest.param("Fail", 422, id="fail"), pytest.param("Ignore", 201, id="ignore")],
)
@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"validations": [{"expression": "object.nope == 1"}]}, id="validation"),
        pytest.param(
            {
                "validations": [{"expression": "false"}],
                "matchConditions": [{"name": "c", "expression": "object.nope == 1"}],
            },
            id="condition",
        ),
        pytest.param(
            {"auditAnnotations": [{"key": "k", "valueExpression": "string(object.nope)"}]},
            id="annotation",
        ),
        pytest.param(
            {
                "validations": [{"expression": "false"}],
                "paramKind": {"apiVersion": "example.com/v1", "kind": "Nope"},
            },
            id="param-kind",
        ),
    ],
)
async def test_failure_policy_decides_about_expressions_without_value(
    world: World, failure_policy: str, status: int, spec: Object
) -> None:
    await policy(world, failurePolicy=failure_policy, **spec)
    await bind(world)
    assert (await world.config_map()).status == status


async def test_conditions_select_writes(world: World) -> None:
    conditions = [{"name": "c", "expression": "object.metadata.name.startsWith('x')"}]
    await policy(world, "false", matchConditions=conditions)
    await bind(world)
    assert (await world.config_map("a")).status == 201
    assert (await world.config_map("x")).status == 422


async def test_variables_are_shared_by_expressions_messages_and_annotations(world: World) -> None:
    await policy(
        world,
        {"expression": "variables.twice < 4", "messageExpression": "'got ' + string(variables.n)"},
        variables=[
            {"name": "n", "expression": "object.data.size()"},
            {"name": "twice", "expression": "variables.n * 2"},
        ],
        auditAnnotations=[
            {"key": "size", "valueExpression": "string(variables.twice)"},
            {"key": "none", "valueExpression": "null"},
        ],
    )
    await bind(world)
    reply = await world.config_map(data={"k": "v"})
    assert (reply.status, reply.annotations["p/size"]) == (201, "2")
    assert "p/none" not in reply.annotations
    assert (await world.config_map("b", data={"k": "v", "l": "w"})).message.endswith("got 2")


async def test_bindings_narrow_the_scope_of_a_policy(world: World) -> None:
    await policy(world, "false", matchConstraints=rules("configmaps", "secrets"))
    await bind(
        world, matchResources={**rules("secrets"), "objectSelector": {"matchLabels": {"a": "b"}}}
    )
    assert (await world.config_map()).status == 201
    secrets = "/api/v1/namespaces/default/secrets"
    assert (await world.call("POST", secrets, {"metadata": {"name": "s"}})).status == 201
    labelled = {"metadata": {"name": "t", "labels": {"a": "b"}}}
    assert (await world.call("POST", secrets, labelled)).status == 422


async def test_rules_can_name_and_exclude_objects(world: World) -> None:
    named = rules(resourceNames=["a", "b"])
    excluded = rules(resourceNames=["b"])["resourceRules"]
    await policy(world, "false", matchConstraints={**named, "excludeResourceRules": excluded})
    await bind(world)
    statuses = [(await world.config_map(name)).status for name in ("a", "b", "c")]
    assert statuses == [422, 201, 201]


async def test_other_versions_are_converted_for_a_policy(world: World) -> None:
    path = await world.crd("v1", "v2")
    constraints = rules("widgets", groups=["example.com"], versions=["v1"])
    await policy(
        world,
        "object.apiVersion == 'example.com/v1' && request.requestKind.version == 'v2'",
        matchConstraints=constraints,
    )
    await bind(world)
    obj = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "a"}}
    await world.make(path.replace("/v1/", "/v2/"), obj)


async def test_policies_and_reviews_are_exempt(world: World) -> None:
    everything = rules("*/*", groups=["*"], versions=["*"])
    await policy(world, "false", matchConstraints=everything)
    await bind(world)
    await policy(world, "true", name="q")
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "configmaps"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await world.call("POST", path, review)).status == 201
    webhooks = f"{REGISTRATION}/validatingwebhookconfigurations"
    refused = await world.call("POST", webhooks, {"metadata": {"name": "w"}})
    assert refused.status == 422
    assert (await world.call("DELETE", f"{BINDINGS}/b")).status == 200
    assert (await world.config_map()).status == 201


async def test_a_policy_needs_a_binding_and_changes_take_effect_at_once(world: World) -> None:
    await bind(world)
    assert (await world.config_map("a")).status == 201
    await policy(world, "false")
    assert (await world.config_map("b")).status == 422
    patch = [{"op": "replace", "path": "/spec/validations/0/expression", "value": "true"}]
    media = "application/json-patch+json"
    await world.call("PATCH", f"{POLICIES}/p", patch, media=media)
    assert (await world.config_map("b")).status == 201
    await world.call("DELETE", f"{POLICIES}/p")
    assert (await world.config_map("c")).status == 201


async def test_the_first_policy_by_name_is_reported(world: World) -> None:
    for name in ("z", "p"):
        await policy(world, {"expression": "false", "message": name}, name=name)
        await bind(world, name=f"b{name}", policyName=name)
    assert (await world.config_map()).message.endswith("denied request: p")


# -- parameters

KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
LIMIT = "object.data.size() <= int(params.data.max)"


async def _params(world: World, **names: str) -> None:
    for name, value in names.items():
        await world.config_map(name, labels={"role": "limit"}, data={"max": value})


async def _limited(world: World, ref: Object | None, **spec: Any) -> None:
    secrets = rules("secrets")
    await policy(world, LIMIT, paramKind=KIND, matchConstraints=secrets, **spec)
    await bind(world, paramRef=ref)


async def _secret(world: World, *keys: str) -> tuple[int, str]:
    data = dict.fromkeys(keys, "dg==")
    obj = {"metadata": {"generateName": "s-"}, "data": data}
    reply = await world.call("POST", "/api/v1/namespaces/default/secrets", obj)
    return reply.status, reply.message


@pytest.mark.parametrize("namespace", ["default", ""])
async def test_a_parameter_is_found_in_its_namespace_or_that_of_the_write(
    world: World, namespace: str
) -> None:
    await _params(world, limit="1")
    ref = {"name": "limit", "parameterNotFoundAction": "Deny"}
    await _limited(world, {**ref, "namespace": namespace} if namespace else ref)
    assert (await _secret(world, "a"))[0] == 201
    assert (await _secret(world, "a", "b"))[0] == 422


async def test_a_policy_is_evaluated_for_every_selected_parameter(world: World) -> None:
    await _params(world, loose="3", tight="1")
    selector = {"matchLabels": {"role": "limit"}}
    await _limited(world, {"selector": selector, "parameterNotFoundAction": "Deny"})
    assert (await _secret(world, "a"))[0] == 201
    assert (await _secret(world, "a", "b"))[0] == 422


@pytest.mark.parametrize(
    ("ref", "status", "message"),
    [
        pytest.param(
            {"name": "nope", "parameterNotFoundAction": "Deny"},
            422,
            "failed to configure binding: no params found for policy binding with `Deny` "
            "parameterNotFoundAction",
            id="deny",
        ),
        pytest.param({"name": "nope", "parameterNotFoundAction": "Allow"}, 201, "", id="allow"),
        pytest.param(
            {"selector": {"matchLabels": {"no": "such"}}, "parameterNotFoundAction": "Allow"},
            201,
            "",
            id="nothing-selected",
        ),
        pytest.param(
            None,
            422,
            f"expression '{LIMIT}' resulted in error: no such key: data",
            id="without-reference-params-is-null",
        ),
    ],
)
async def test_a_missing_parameter_rejects_or_skips(
    world: World, ref: Object | None, status: int, message: str
) -> None:
    await _limited(world, ref)
    got, text = await _secret(world, "a")
    assert (got, text.endswith(message)) == (status, True), text


async def test_a_namespaced_parameter_needs_a_namespace(world: World) -> None:
    await policy(
        world, "true", paramKind=KIND,
        matchConstraints=rules("clusterroles", groups=["rbac.authorization.k8s.io"]),
    )  # fmt: skip
    await bind(world, paramRef={"name": "x", "parameterNotFoundAction": "Allow"})
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    reply = await world.call("POST", path, {"metadata": {"name": "c"}, "rules": []})
    assert reply.message.endswith(
        "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
    )


async def test_a_cluster_scoped_parameter_must_not_have_a_namespace(world: World) -> None:
    await policy(world, "true", paramKind={"apiVersion": "v1", "kind": "Namespace"})
    await bind(world, paramRef={"name": "x", "namespace": "y", "parameterNotFoundAction": "Allow"})
    assert (await world.config_map()).message.endswith(
        "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
    )


async def test_an_unknown_parameter_kind_is_an_error_of_the_policy(world: World) -> None:
    await policy(world, "true", paramKind={"apiVersion": "example.com/v1", "kind": "Nope"})
    await bind(world)
    assert (await world.config_map()).message == (
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to "
        "configure policy: failed to find resource referenced by paramKind: "
        "'example.com/v1, Kind=Nope'"
    )


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("lists.range(5000).all(i, i >= 0)", id="loop"),
        pytest.param(
            "lists.range(5000).all(i, i >= 0) && "
            "authorizer.group('').resource('pods').namespace('default').check('get').allowed()",
            id="authorizer",
        ),
    ],
)
async def test_costly_policies_are_evaluated_off_the_loop(
    world: World, monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    threads: list[str] = []
    decisions: list[str] = []
    real, authorize = Evaluator.evaluate, RbacAuthorizer.authorize

    def evaluated(*args: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(*args)

    def decided(*args: Any) -> Any:
        decisions.append(threading.current_thread().name)
        return authorize(*args)

    monkeypatch.setattr(Evaluator, "evaluate", evaluated)
    monkeypatch.setattr(RbacAuthorizer, "authorize", decided)
    await policy(world, "true")
    await bind(world)
    await world.make(CONFIG_MAPS, {"metadata": {"name": "cheap"}})
    here = threading.current_thread().name
    assert set(threads) == {here}
    await policy(world, expression, name="q")
    await bind(world, name="q", policyName="q")
    await world.make(CONFIG_MAPS, {"metadata": {"name": "costly"}})
    assert threads[-1].startswith("rdd-objects")
    # The authorizer caches what the event loop changes, so the loop itself asks it.
    assert set(decisions) <= {here}


async def test_many_parameters_pause_for_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offload, "TURN_S", 0.0)
    for i in range(20):
        await world.make(CONFIG_MAPS, {"metadata": {"name": f"p{i}", "labels": {"is": "param"}}})
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await policy(world, "params.metadata.name != object.metadata.name", paramKind=kind)
    ref = {"selector": {"matchLabels": {"is": "param"}}, "parameterNotFoundAction": "Deny"}
    await bind(world, paramRef=ref)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.ensure_future(other())
    await world.make(CONFIG_MAPS, {"metadata": {"name": "new"}})
    running.cancel()
    assert turns >= 10
