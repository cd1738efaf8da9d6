# SPDX-License-Identifier: Apache-2.0
"""Create, read, update, delete; optimistic locking and preconditions."""

import asyncio
import re
from typing import Any

import pytest
from tests.http.client import (
    ACCOUNTS,
    BINDINGS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    Api,
    account,
    bare,
    binding,
    causes,
    config_map,
    event,
    lease,
    namespace,
    role,
    secret,
)

from rdd.api.types import Object

RULE = {"verbs": ["watch"], "apiGroups": ["apps"], "resources": ["deployments"]}
QUOTAS = CONFIG_MAPS.replace("configmaps", "resourcequotas")

LIVES = [
    pytest.param(CONFIG_MAPS, config_map("x", {"k": "v"}), ("data", {"k": "w"}), id="configmap"),
    pytest.param(
        SECRETS, secret("x", {"k": "dg=="}, type="Opaque"), ("data", {"k": "dw=="}), id="secret"
    ),
    pytest.param(ROLES, role("x", [RULE]), ("rules", [RULE, RULE]), id="role"),
    pytest.param(
        f"{RBAC}/clusterroles",
        role("x", [RULE], kind="ClusterRole"),
        ("rules", None),
        id="clusterrole",
    ),
    pytest.param(
        BINDINGS,
        binding("x", "r"),
        ("subjects", [{"kind": "ServiceAccount", "name": "s", "namespace": "default"}]),
        id="rolebinding",
    ),
    pytest.param(
        f"{RBAC}/clusterrolebindings",
        binding("x", "r", kind="ClusterRoleBinding", to_kind="ClusterRole"),
        ("subjects", [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]),
        id="clusterrolebinding",
    ),
    pytest.param(EVENTS, event("x", reason="A"), ("reason", "B"), id="event"),
]


@pytest.mark.parametrize(("path", "obj", "change"), LIVES)
async def test_object_is_created_read_replaced_and_deleted(
    path: str, obj: Object, change: tuple[str, Any], api: Api
) -> None:
    made = await api.post(path, obj, expect=201)
    meta = made["metadata"]
    assert re.fullmatch(r"\d+", meta["resourceVersion"])
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", meta["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", meta["creationTimestamp"])
    assert await api.get(f"{path}/x", expect=200) == made

    replaced = await api.put(f"{path}/x", {**obj, change[0]: change[1]}, expect=200)
    assert replaced[change[0]] == change[1]
    assert int(replaced["metadata"]["resourceVersion"]) > int(meta["resourceVersion"])
    assert replaced["metadata"]["uid"] == meta["uid"]
    assert replaced["metadata"]["creationTimestamp"] == meta["creationTimestamp"]

    again = await api.refused(409, "POST", path, obj)
    assert again["reason"] == "AlreadyExists"
    assert again["message"].endswith(' "x" already exists')

    gone = await api.delete(f"{path}/x", expect=200)
    assert (gone["kind"], gone["status"]) == ("Status", "Success")
    assert gone["details"]["uid"] == meta["uid"]
    for method in ("GET", "DELETE"):
        missing = await api.refused(404, method, f"{path}/x")
        assert (missing["reason"], missing["details"]["name"]) == ("NotFound", "x")


async def test_deleting_some_kinds_returns_the_object(api: Api) -> None:
    await api.post(ACCOUNTS, account("x", automountServiceAccountToken=True))
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "x"}}
    await api.post(QUOTAS, {**quota, "spec": {"hard": {"configmaps": "3"}}})
    assert (await api.delete(f"{ACCOUNTS}/x"))["kind"] == "ServiceAccount"
    assert (await api.delete(f"{QUOTAS}/x"))["kind"] == "ResourceQuota"


@pytest.mark.parametrize(
    ("path", "obj"),
    [
        pytest.param(CONFIG_MAPS, config_map("x", {"k": "v"}), id="configmap"),
        pytest.param(ACCOUNTS, account("x", secrets=[{"name": "s"}]), id="serviceaccount"),
        pytest.param(ROLES, role("x", [RULE]), id="role"),
        pytest.param(NAMESPACES, namespace("x", labels={"team": "a"}), id="namespace"),
    ],
)
async def test_replacement_that_changes_nothing_keeps_the_version(
    path: str, obj: Object, api: Api
) -> None:
    made = await api.post(path, obj)
    assert (await api.put(f"{path}/x", obj))["metadata"] == made["metadata"]


# -- generated names


async def test_generated_names_are_the_prefix_and_five_characters(api: Api) -> None:
    body = {"metadata": {"generateName": "job-"}}
    names = {(await api.post(CONFIG_MAPS, body))["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(re.fullmatch(r"job-[bcdfghjklmnpqrstvwxz2456789]{5}", n) for n in names)


async def test_long_generate_name_is_truncated_in_the_name_only(api: Api) -> None:
    prefix = "p" * 70 + "-"
    made = await api.post(CONFIG_MAPS, {"metadata": {"generateName": prefix}})
    assert made["metadata"]["generateName"] == prefix
    assert made["metadata"]["name"][:-5] == prefix[:58]


async def test_name_takes_precedence_over_generate_name(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("given", generateName="other-"))
    assert made["metadata"]["name"] == "given"


# -- optimistic locking


async def test_replacement_of_an_old_version_is_a_conflict(api: Api) -> None:
    first = await api.post(CONFIG_MAPS, config_map("x", {"n": "1"}))
    await api.put(f"{CONFIG_MAPS}/x", config_map("x", {"n": "2"}))
    status = await api.refused(409, "PUT", f"{CONFIG_MAPS}/x", first | {"data": {"n": "3"}})
    assert status["reason"] == "Conflict"
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "x": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    assert status["details"] == {"name": "x", "kind": "configmaps"}
    current = await api.get(f"{CONFIG_MAPS}/x")
    await api.put(f"{CONFIG_MAPS}/x", current | {"data": {"n": "3"}}, expect=200)


async def test_of_many_simultaneous_replacements_of_one_version_one_wins(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x"))
    tries = [
        api.call("PUT", f"{CONFIG_MAPS}/x", made | {"data": {"winner": str(i)}}) for i in range(12)
    ]
    codes = [reply.status for reply in await asyncio.gather(*tries)]
    assert sorted(codes) == [200] + [409] * 11


async def test_replacement_with_another_uid_is_a_conflict(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(409, "PUT", f"{CONFIG_MAPS}/x", config_map("x", uid="other"))
    uid = made["metadata"]["uid"]
    assert "Precondition failed: UID in precondition: other" in status["message"]
    assert f"UID in object meta: {uid}" in status["message"]
    await api.put(f"{CONFIG_MAPS}/x", config_map("x", uid=uid), expect=200)


async def test_malformed_resource_version_is_rejected(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(
        500, "PUT", f"{CONFIG_MAPS}/x", config_map("x", resourceVersion="seven")
    )
    assert status["message"] == 'strconv.ParseUint: parsing "seven": invalid syntax'


async def test_new_object_must_not_have_a_resource_version(api: Api) -> None:
    status = await api.refused(500, "POST", CONFIG_MAPS, config_map("x", resourceVersion="7"))
    assert status["message"] == "resourceVersion should not be set on objects to be created"


@pytest.mark.parametrize(
    ("path", "obj", "code"),
    [
        pytest.param(CONFIG_MAPS, config_map("x"), 404, id="configmap"),
        pytest.param(SECRETS, secret("x"), 404, id="secret"),
        pytest.param(ACCOUNTS, account("x"), 404, id="serviceaccount"),
        pytest.param(NAMESPACES, namespace("x"), 404, id="namespace"),
        pytest.param(LEASES, lease("x"), 201, id="lease"),
        pytest.param(ROLES, role("x"), 201, id="role"),
        pytest.param(BINDINGS, binding("x", "r"), 201, id="rolebinding"),
        pytest.param(EVENTS, event("x"), 201, id="event"),
        pytest.param(CONFIG_MAPS, config_map("x", uid="abc"), 404, id="with a uid"),
        pytest.param(CONFIG_MAPS, config_map("x", resourceVersion="3"), 404, id="with a version"),
        pytest.param(LEASES, lease("x", resourceVersion="3"), 201, id="lease with a version"),
    ],
)
async def test_update_of_a_missing_object_creates_it_for_some_kinds_only(
    path: str, obj: Object, code: int, api: Api
) -> None:
    assert (await api.call("PUT", f"{path}/x", obj)).status == code


async def test_update_of_a_lease_requires_its_resource_version(api: Api) -> None:
    made = await api.post(LEASES, lease("x", {"holderIdentity": "a"}))
    status = await api.refused(422, "PUT", f"{LEASES}/x", lease("x", {"holderIdentity": "b"}))
    assert status["message"] == (
        'leases.coordination.k8s.io "x" is invalid: metadata.resourceVersion: '
        "Invalid value: 0: must be specified for an update"
    )
    made["spec"]["holderIdentity"] = "b"
    await api.put(f"{LEASES}/x", made, expect=200)


async def test_times_of_a_lease_keep_microseconds_in_utc(api: Api) -> None:
    spec = {"renewTime": "2030-05-06T09:08:07.654321+02:00", "leaseTransitions": 2}
    made = await api.post(LEASES, lease("x", spec))
    assert made["spec"] == {"renewTime": "2030-05-06T07:08:07.654321Z", "leaseTransitions": 2}


# -- deletion


async def test_deletion_checks_its_preconditions(api: Api) -> None:
    made = await api.post(CONFIG_MAPS, config_map("x"))
    meta = made["metadata"]
    uid, version = meta["uid"], meta["resourceVersion"]
    start = 'Operation cannot be fulfilled on ConfigMap "x": '
    for wrong, text in (
        (
            {"uid": "other"},
            f"the UID in the precondition (other) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated",
        ),
        (
            {"resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in "
            f"record ({version}). The object might have been modified",
        ),
    ):
        status = await api.refused(409, "DELETE", f"{CONFIG_MAPS}/x", {"preconditions": wrong})
        assert (status["reason"], status["message"]) == ("Conflict", start + text)
        assert status["details"] == {"name": "x", "kind": "ConfigMap"}
        await api.refused(409, "DELETE", f"{CONFIG_MAPS}/x", query=wrong)
        await api.refused(409, "DELETE", CONFIG_MAPS, query=wrong)
    right = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    await api.delete(f"{CONFIG_MAPS}/x", {"preconditions": right}, expect=200)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        pytest.param(
            {"propagationPolicy": "Up"},
            422,
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Up": '
            'supported values: "Foreground", "Background", "Orphan", "nil"',
            id="unknown policy",
        ),
        pytest.param(
            {"propagationPolicy": "Background", "orphanDependents": False},
            422,
            'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: '
            '"Background": orphanDependents and deletionPropagation cannot be both set',
            id="two policies",
        ),
        pytest.param(
            {"dryRun": ["None"]},
            422,
            'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["None"]: '
            'supported values: "All"',
            id="unknown dry run",
        ),
        pytest.param(
            "{oops",
            400,
            "couldn't get version/kind; json parse error: invalid character 'o' looking for "
            "beginning of object key string",
            id="no JSON",
        ),
    ],
)
async def test_contradictory_delete_options_are_rejected(
    options: Any, code: int, message: str, api: Api
) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(code, "DELETE", f"{CONFIG_MAPS}/x", options)
    assert status["message"] == message
    await api.get(f"{CONFIG_MAPS}/x", expect=200)


async def test_delete_options_of_another_kind_are_rejected(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    body = {"kind": "Secret", "apiVersion": "v1"}
    status = await api.refused(400, "DELETE", f"{CONFIG_MAPS}/x", body)
    assert status["message"].startswith('no kind "Secret" is registered for version "v1"')


async def test_delete_options_may_be_in_the_query(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    path = f"{CONFIG_MAPS}/x?propagationPolicy=Nowhere"
    assert causes(await api.refused(422, "DELETE", path)) == [
        ("propagationPolicy", "FieldValueNotSupported")
    ]
    await api.delete(f"{CONFIG_MAPS}/x?propagationPolicy=Background&gracePeriodSeconds=0")


async def test_deletecollection_respects_selectors(api: Api) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front"), ("d", "back")):
        await api.post(CONFIG_MAPS, config_map(name, labels={"tier": tier}))
    gone = await api.delete(CONFIG_MAPS, query={"labelSelector": "tier=front"})
    assert gone["kind"] == "ConfigMapList"
    assert [o["metadata"]["name"] for o in gone["items"]] == ["a", "c"]
    await api.delete(CONFIG_MAPS, query={"fieldSelector": "metadata.name!=d"})
    assert await api.names(CONFIG_MAPS) == ["d"]
    await api.delete(CONFIG_MAPS)
    assert (await api.delete(CONFIG_MAPS))["items"] == []


async def test_deletecollection_marks_objects_with_finalizers(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("free"))
    await api.post(CONFIG_MAPS, config_map("held", finalizers=["shop.example.com/hold"]))
    gone = await api.delete(CONFIG_MAPS)
    assert [o["metadata"]["name"] for o in gone["items"]] == ["free", "held"]
    (left,) = (await api.get(CONFIG_MAPS))["items"]
    assert left["metadata"]["name"] == "held"
    assert left["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("DELETE", NAMESPACES, id="all namespaces"),
        pytest.param("DELETE", "/api/v1/configmaps", id="objects of all namespaces"),
        pytest.param("POST", "/api/v1/configmaps", id="creation without namespace"),
        pytest.param("PUT", CONFIG_MAPS, id="replacement of a collection"),
        pytest.param("PATCH", CONFIG_MAPS, id="patch of a collection"),
        pytest.param("POST", f"{CONFIG_MAPS}/x", id="creation below a name"),
    ],
)
async def test_unsupported_verbs_are_rejected(method: str, path: str, api: Api) -> None:
    status = await api.refused(405, method, path, config_map("x"))
    assert status["reason"] == "MethodNotAllowed"
    assert status["message"] == "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("HEAD", CONFIG_MAPS, id="head of a list"),
        pytest.param("HEAD", f"{CONFIG_MAPS}/x", id="head of an object"),
        pytest.param("OPTIONS", CONFIG_MAPS, id="options"),
        pytest.param("TRACE", CONFIG_MAPS, id="trace"),
        pytest.param("HEAD", "/version", id="head of a document"),
    ],
)
async def test_other_methods_are_rejected(method: str, path: str, api: Api) -> None:
    assert (await api.call(method, path)).status == 405


# -- namespaces


async def test_missing_namespace_can_be_read_but_not_written_to(api: Api) -> None:
    path = "/api/v1/namespaces/nowhere/configmaps"
    status = await api.refused(404, "POST", path, config_map("x"))
    assert status["message"] == 'namespaces "nowhere" not found'
    roles = f"{RBAC}/namespaces/nowhere/roles"
    await api.refused(404, "POST", roles, role("x"))
    assert await api.names(path) == []
    assert (await api.delete(path))["items"] == []
    assert (await api.refused(404, "GET", f"{path}/x"))["details"]["kind"] == "configmaps"


async def test_namespace_of_a_body_must_be_that_of_the_path(api: Api) -> None:
    status = await api.refused(400, "POST", CONFIG_MAPS, config_map("x", namespace="other"))
    assert status["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    made = await api.post(CONFIG_MAPS, config_map("x", namespace="default"))
    assert made["metadata"]["namespace"] == "default"


async def test_new_namespace_gets_label_finalizer_and_phase(api: Api) -> None:
    name_label = "kubernetes.io/metadata.name"
    made = await api.post(NAMESPACES, namespace("team", labels={name_label: "mine", "a": "b"}))
    assert bare(made) == {
        **namespace("team", labels={name_label: "team", "a": "b"}),
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }
    replaced = await api.put(f"{NAMESPACES}/team", namespace("team"))
    assert bare(replaced)["metadata"] == {"name": "team", "labels": {name_label: "team"}}
    gone = await api.delete(f"{NAMESPACES}/team")
    assert (gone["kind"], gone["status"]["phase"]) == ("Namespace", "Terminating")
    assert gone["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("phase", ["Terminating", "Resting"])
async def test_phase_of_a_namespace_is_active_until_deletion(phase: str, api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    body = namespace("team") | {"status": {"phase": phase}}
    status = await api.refused(422, "PUT", f"{NAMESPACES}/team/status", body)
    assert status["message"] == (
        f'Namespace "team" is invalid: status.Phase: Invalid value: "{phase}": '
        "may only be 'Active' if `deletionTimestamp` is empty"
    )


async def test_finalizers_of_a_namespace_change_through_finalize_only(api: Api) -> None:
    given = namespace("team") | {"spec": {"finalizers": ["shop.example.com/own"]}}
    made = await api.post(NAMESPACES, given)
    assert made["spec"]["finalizers"] == ["shop.example.com/own", "kubernetes"]
    none = namespace("team") | {"spec": {"finalizers": []}}
    assert (await api.put(f"{NAMESPACES}/team", none))["spec"] == made["spec"]
    bad = namespace("team") | {"spec": {"finalizers": ["no good"]}}
    status = await api.refused(422, "PUT", f"{NAMESPACES}/team/finalize", bad)
    assert causes(status)[0] == ("spec.finalizers[0]", "FieldValueInvalid")
    less = namespace("team") | {"spec": {"finalizers": ["kubernetes"]}}
    done = await api.put(f"{NAMESPACES}/team/finalize", less)
    assert done["spec"]["finalizers"] == ["kubernetes"]


# -- events in two groups


async def test_event_is_the_same_object_in_both_groups(api: Api) -> None:
    await api.post(EVENTS, event("x", reason="Why", message="words", type="Normal"))
    other = "/apis/events.k8s.io/v1/namespaces/default/events"
    seen = await api.get(f"{other}/x")
    assert (seen["apiVersion"], seen["note"], seen["regarding"]["name"]) == (
        "events.k8s.io/v1",
        "words",
        "t",
    )
    assert "message" not in seen
    assert await api.names(other) == ["x"]
    new = {
        "metadata": {"name": "y"},
        "eventTime": "2030-01-02T03:04:05.000000Z",
        "reportingController": "shop.example.com/c",
        "reportingInstance": "i-1",
        "action": "Did",
        "reason": "So",
        "type": "Warning",
        "regarding": {"namespace": "default", "kind": "Thing", "name": "t"},
        "note": "text",
    }
    await api.post(other, new)
    back = await api.get(f"{EVENTS}/y")
    assert (back["message"], back["reportingComponent"]) == ("text", "shop.example.com/c")
    assert back["involvedObject"]["kind"] == "Thing"


@pytest.mark.parametrize("space", ["", "elsewhere"])
async def test_event_must_be_in_the_namespace_of_its_object(space: str, api: Api) -> None:
    await api.post(NAMESPACES, namespace("team"))
    about = {"kind": "Thing", **({"namespace": space} if space else {})}
    path = EVENTS.replace("default", "team")
    status = await api.refused(422, "POST", path, event("x") | {"involvedObject": about})
    assert status["message"] == (
        f'Event "x" is invalid: involvedObject.namespace: Invalid value: "{space}": '
        "does not match event.namespace"
    )


async def test_events_v1_event_requires_time_and_type(api: Api) -> None:
    other = "/apis/events.k8s.io/v1/namespaces/default/events"
    body = {"metadata": {"name": "x"}, "regarding": {"namespace": "default"}}
    status = await api.refused(422, "POST", other, body)
    assert {field for field, _ in causes(status)} == {"eventTime", "type"}


@pytest.mark.parametrize(
    ("export", "code"),
    [
        pytest.param("true", 400, id="true"),
        pytest.param("maybe", 400, id="anything"),
        pytest.param("false", 200, id="false"),
    ],
)
async def test_export_is_refused(export: str, code: int, api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    reply = await api.call("GET", f"{CONFIG_MAPS}/x", query={"export": export})
    assert reply.status == code
    if code == 400:
        assert reply.json()["message"] == (
            "the export parameter, deprecated since v1.14, is no longer supported"
        )


@pytest.mark.parametrize(
    ("path", "body", "times"),
    [
        pytest.param(CONFIG_MAPS, config_map("x"), 4, id="config map"),
        pytest.param(ROLES, role("x", []), 4, id="role"),
        pytest.param(LEASES, lease("x"), 3, id="lease"),
        pytest.param(NAMESPACES, namespace("x"), 3, id="namespace"),
        pytest.param(EVENTS, event("x"), 2, id="event"),
    ],
)
async def test_wrong_label_of_an_update_is_reported_as_often_as_in_kubernetes(
    path: str, body: Object, times: int, api: Api
) -> None:
    await api.post(path, body)
    patch = {"metadata": {"labels": {"a": "not valid!"}}}
    status = await api.refused(422, "PATCH", f"{path}/x", patch, content_type=MERGE)
    assert causes(status) == [("metadata.labels", "FieldValueInvalid")] * times


@pytest.mark.parametrize(
    ("member", "value"), [("deletionTimestamp", "2024-01-02T03:04:05Z"), ("uid", "other")]
)
async def test_system_metadata_is_immutable(member: str, value: str, api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    patch = {"metadata": {member: value}}
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/x", patch, content_type=MERGE)
    assert reply.status in (409, 422), reply.text


async def test_grace_period_is_immutable(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    body = config_map("x", deletionGracePeriodSeconds=5)
    status = await api.refused(422, "PUT", f"{CONFIG_MAPS}/x", body)
    assert status["message"] == (
        'ConfigMap "x" is invalid: metadata.deletionGracePeriodSeconds: Invalid value: 5: '
        "field is immutable"
    )
