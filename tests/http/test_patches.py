# SPDX-License-Identifier: Apache-2.0
"""JSON, merge and strategic merge patches."""

from typing import Any

import pytest
from tests.http.client import (
    ACCOUNTS,
    BINDINGS,
    CONFIG_MAPS,
    CRDS,
    JSON_PATCH,
    LEASES,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    SECRETS,
    STRATEGIC,
    WIDGETS,
    Api,
    account,
    binding,
    causes,
    config_map,
    crd,
    lease,
    namespace,
    role,
    secret,
    widget,
)

from rdd.api.types import Object

REJECTED = "the server rejected our request due to an error in our request"
X = f"{CONFIG_MAPS}/x"


@pytest.fixture
async def patched(api: Api) -> Api:
    """A server with the config map `x`."""
    labels, notes = {"tier": "one", "zone": "a"}, {"note": "text"}
    await api.post(
        CONFIG_MAPS, config_map("x", {"a": "1", "b": "2"}, labels=labels, annotations=notes)
    )
    return api


# -- JSON patch


@pytest.mark.parametrize(
    ("ops", "data"),
    [
        pytest.param([], {"a": "1", "b": "2"}, id="nothing"),
        pytest.param(
            [{"op": "add", "path": "/data/c", "value": "3"}],
            {"a": "1", "b": "2", "c": "3"},
            id="add",
        ),
        pytest.param(
            [{"op": "add", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}, id="add again"
        ),
        pytest.param(
            [{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9", "b": "2"}, id="replace"
        ),
        pytest.param(
            [{"op": "replace", "path": "/data/new", "value": "9"}],
            {"a": "1", "b": "2", "new": "9"},
            id="replace what is missing in a map",
        ),
        pytest.param([{"op": "remove", "path": "/data/a"}], {"b": "2"}, id="remove"),
        pytest.param(
            [{"op": "copy", "from": "/data/a", "path": "/data/z"}],
            {"a": "1", "b": "2", "z": "1"},
            id="copy",
        ),
        pytest.param(
            [{"op": "move", "from": "/data/a", "path": "/data/z"}], {"b": "2", "z": "1"}, id="move"
        ),
        pytest.param(
            [
                {"op": "test", "path": "/data/a", "value": "1"},
                {"op": "replace", "path": "/data/a", "value": "5"},
                {"op": "test", "path": "/data/a", "value": "5"},
                {"op": "remove", "path": "/data/b"},
            ],
            {"a": "5"},
            id="one after the other",
        ),
        pytest.param(
            [{"op": "replace", "path": "/data", "value": {"only": "x"}}], {"only": "x"}, id="whole"
        ),
        pytest.param(
            [{"op": "add", "path": "/data/q~1r~0s", "value": "9"}], None, id="escaped key"
        ),
    ],
)
async def test_json_patches_apply(ops: list[Any], data: Object | None, patched: Api) -> None:
    if data is None:
        status = await patched.refused(422, "PATCH", X, ops, content_type=JSON_PATCH)
        assert causes(status) == [("data[q/r~s]", "FieldValueInvalid")]
        return
    assert (await patched.patch(X, ops, JSON_PATCH))["data"] == data
    assert (await patched.get(X))["data"] == data


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([{"op": "test", "path": "/data/a", "value": "9"}], id="test fails"),
        pytest.param([{"op": "test", "path": "/data/none", "value": "9"}], id="test of nothing"),
        pytest.param([{"op": "remove", "path": "/data/none"}], id="remove nothing"),
        pytest.param([{"op": "add", "path": "/none/deep", "value": "9"}], id="add into nothing"),
        pytest.param([{"op": "swap", "path": "/data/a"}], id="unknown operation"),
        pytest.param([{"path": "/data/a"}], id="no operation"),
        pytest.param([{"op": "add", "value": "9"}], id="no path"),
        pytest.param([{"op": "move", "from": "/none/a", "path": "/data/a"}], id="move nothing"),
        pytest.param([{"op": "remove", "path": "/metadata/finalizers/0"}], id="empty list"),
    ],
)
async def test_json_patches_that_fail_change_nothing(ops: list[Any], patched: Api) -> None:
    before = await patched.get(X)
    first = {"op": "replace", "path": "/data/b", "value": "changed"}
    status = await patched.refused(422, "PATCH", X, [first, *ops], content_type=JSON_PATCH)
    assert (status["reason"], status["message"]) == ("Invalid", REJECTED)
    assert await patched.get(X) == before


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            {"data": {}},
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp",
            id="an object",
        ),
        pytest.param("[{", "error decoding patch: unexpected end of JSON input", id="cut"),
        pytest.param("", "error decoding patch: unexpected end of JSON input", id="empty"),
    ],
)
async def test_malformed_json_patches_are_rejected(body: Any, message: str, patched: Api) -> None:
    status = await patched.refused(400, "PATCH", X, body, content_type=JSON_PATCH)
    assert (status["reason"], status["message"]) == ("BadRequest", message)


async def test_json_patch_has_at_most_10000_operations(patched: Api) -> None:
    ops = [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001
    status = await patched.refused(413, "PATCH", X, ops, content_type=JSON_PATCH)
    assert status["message"] == (
        "Request entity too large: "
        "The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


async def test_json_patches_address_list_items_by_index(api: Api) -> None:
    names = [f"shop.example.com/{n}" for n in "abcde"]
    await api.post(CONFIG_MAPS, config_map("x", finalizers=names[:2]))

    async def patch(*ops: Object) -> list[str]:
        result: list[str] = (await api.patch(X, list(ops), JSON_PATCH))["metadata"]["finalizers"]
        return [n[-1] for n in result]

    where = "/metadata/finalizers"
    assert await patch({"op": "add", "path": f"{where}/-", "value": names[2]}) == list("abc")
    assert await patch({"op": "add", "path": f"{where}/0", "value": names[3]}) == list("dabc")
    assert await patch({"op": "add", "path": f"{where}/2", "value": names[4]}) == list("daebc")
    assert await patch({"op": "remove", "path": f"{where}/1"}) == list("debc")
    assert await patch({"op": "replace", "path": f"{where}/0", "value": names[0]}) == list("aebc")
    for path in (f"{where}/9", f"{where}/x"):
        await api.refused(
            422,
            "PATCH",
            X,
            [{"op": "replace", "path": path, "value": "y"}],
            content_type=JSON_PATCH,
        )


async def test_json_patch_with_unknown_fields_is_a_warning(patched: Api) -> None:
    ops = [{"op": "add", "path": "/extra", "value": 1}]
    reply = await patched.call("PATCH", X, ops, content_type=JSON_PATCH)
    assert (reply.status, reply.warnings) == (200, ['unknown field "extra"'])


# -- merge patch


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        pytest.param({}, {"a": "1", "b": "2"}, id="nothing"),
        pytest.param({"data": {"a": "1"}}, {"a": "1", "b": "2"}, id="the same"),
        pytest.param({"data": {"a": "9", "c": "3"}}, {"a": "9", "b": "2", "c": "3"}, id="values"),
        pytest.param({"data": {"a": None}}, {"b": "2"}, id="null removes"),
        pytest.param({"data": {"none": None}}, {"a": "1", "b": "2"}, id="null for nothing"),
        pytest.param({"data": None}, None, id="all removed"),
    ],
)
async def test_merge_patches_apply(patch: Object, data: Object | None, patched: Api) -> None:
    before = await patched.get(X)
    after = await patched.patch(X, patch, MERGE)
    assert after.get("data") == data
    changed = after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert changed == (data != before["data"])


async def test_merge_patches_replace_lists(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", finalizers=["shop.example.com/a"]))
    two = ["shop.example.com/b", "shop.example.com/c"]
    after = await api.patch(X, {"metadata": {"finalizers": two}}, MERGE)
    assert after["metadata"]["finalizers"] == two
    after = await api.patch(X, {"metadata": {"finalizers": []}}, MERGE)
    assert "finalizers" not in after["metadata"]


async def test_merge_patches_of_labels_change_only_the_named_labels(patched: Api) -> None:
    patch = {"metadata": {"labels": {"tier": None, "new": "n"}, "annotations": None}}
    after = await patched.patch(X, patch, MERGE)
    assert after["metadata"]["labels"] == {"zone": "a", "new": "n"}
    assert "annotations" not in after["metadata"]


@pytest.mark.parametrize("body", ["[]", "7", '"x"'])
async def test_merge_patches_must_be_objects(body: str, patched: Api) -> None:
    await patched.refused(400, "PATCH", X, body, content_type=MERGE)


# -- identity


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
async def test_patches_cannot_change_name_namespace_or_uid(kind: str, patched: Api) -> None:
    for meta, code, message in (
        ({"name": "y"}, 400, "the name of the object (y) does not match the name on the URL (x)"),
        (
            {"name": None},
            400,
            "the name of the object (x based on URL) was undeterminable: name must be provided",
        ),
        (
            {"namespace": "elsewhere"},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"uid": "other"},
            422,
            'ConfigMap "x" is invalid: metadata.uid: Invalid value: "other": field is immutable',
        ),
    ):
        status = await patched.refused(code, "PATCH", X, {"metadata": meta}, content_type=kind)
        assert status["message"] == message
    for meta in ({"creationTimestamp": "2001-01-01T00:00:00Z"}, {"uid": None}):
        before = await patched.get(X)
        assert await patched.patch(X, {"metadata": meta}, kind) == before


async def test_patches_cannot_change_kind_or_api_version(patched: Api) -> None:
    for patch in ({"kind": "Secret"}, {"apiVersion": "v2"}):
        status = await patched.refused(422, "PATCH", X, patch, content_type=MERGE)
        assert status["message"].startswith(' "" is invalid: patch: Invalid value: ')
        assert causes(status) == [("patch", "FieldValueInvalid")]


async def test_patch_can_require_a_resource_version(patched: Api) -> None:
    before = await patched.get(X)
    version = before["metadata"]["resourceVersion"]
    meta = {"resourceVersion": version}
    await patched.patch(X, {"metadata": meta, "data": {"a": "2"}}, MERGE)
    status = await patched.refused(
        409, "PATCH", X, {"metadata": meta, "data": {"a": "3"}}, content_type=MERGE
    )
    assert status["reason"] == "Conflict"


@pytest.mark.parametrize("kind", [JSON_PATCH, MERGE, STRATEGIC])
async def test_patch_of_a_missing_object_is_not_found(kind: str, api: Api) -> None:
    body: Any = [] if kind == JSON_PATCH else {}
    for path, what in ((X, "configmaps"), (f"{ROLES}/x", "roles.rbac.authorization.k8s.io")):
        status = await api.refused(404, "PATCH", path, body, content_type=kind)
        assert status["message"] == f'{what} "x" not found'


# -- strategic merge patch


@pytest.mark.parametrize(
    ("patch", "data"),
    [
        pytest.param({"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}, id="merge"),
        pytest.param({"data": {"$patch": "replace", "z": "9"}}, {"z": "9"}, id="replace"),
        pytest.param({"data": {"$patch": "delete"}}, None, id="delete"),
        pytest.param({"data": {"$retainKeys": ["a"], "a": "7"}}, {"a": "7"}, id="retain keys"),
    ],
)
async def test_strategic_patches_support_directives(
    patch: Object, data: Object | None, patched: Api
) -> None:
    assert (await patched.patch(X, patch, STRATEGIC)).get("data") == data


async def test_strategic_patches_merge_finalizers_as_a_set(api: Api) -> None:
    a, b, c = (f"shop.example.com/{n}" for n in "abc")
    await api.post(CONFIG_MAPS, config_map("x", finalizers=[a, b]))

    async def patch(meta: Object) -> Any:
        after = await api.patch(X, {"metadata": meta}, STRATEGIC)
        return after["metadata"].get("finalizers")

    assert await patch({"finalizers": [c]}) == [c, a, b]
    assert await patch({"$deleteFromPrimitiveList/finalizers": [a]}) == [c, b]
    assert await patch({"$setElementOrder/finalizers": [b, c], "finalizers": [b, c]}) == [b, c]
    assert await patch({"finalizers": None}) is None


async def test_strategic_patches_merge_owners_by_uid(api: Api) -> None:
    def owner(uid: str, **kw: Any) -> Object:
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid, **kw}

    await api.post(CONFIG_MAPS, config_map("x", ownerReferences=[owner("u1")]))

    async def patch(*owners: Object) -> list[tuple[str, str]]:
        after = await api.patch(X, {"metadata": {"ownerReferences": list(owners)}}, STRATEGIC)
        return [(o["uid"], o["name"]) for o in after["metadata"]["ownerReferences"]]

    assert await patch(owner("u2")) == [("u2", "o"), ("u1", "o")]
    assert await patch({"uid": "u1", "name": "p"}) == [("u2", "o"), ("u1", "p")]
    assert await patch({"$patch": "delete", "uid": "u2"}) == [("u1", "p")]
    assert await patch({"$patch": "replace"}, owner("u3")) == [("u3", "o")]
    status = await api.refused(
        500, "PATCH", X, {"metadata": {"ownerReferences": [{"name": "q"}]}}, content_type=STRATEGIC
    )
    assert status["message"] == "map: map[name:q] does not contain declared merge key: uid"


async def test_strategic_patches_merge_the_lists_of_service_accounts(api: Api) -> None:
    body = account("x", secrets=[{"name": "a"}, {"name": "b"}], imagePullSecrets=[{"name": "p"}])
    await api.post(ACCOUNTS, body)
    path = f"{ACCOUNTS}/x"
    after = await api.patch(path, {"secrets": [{"name": "c"}]}, STRATEGIC)
    assert [s["name"] for s in after["secrets"]] == ["c", "a", "b"]
    after = await api.patch(path, {"secrets": [{"$patch": "delete", "name": "a"}]}, STRATEGIC)
    assert [s["name"] for s in after["secrets"]] == ["c", "b"]
    after = await api.patch(path, {"imagePullSecrets": [{"name": "q"}]}, STRATEGIC)
    assert after["imagePullSecrets"] == [{"name": "q"}]


@pytest.mark.parametrize(
    ("path", "obj", "patch", "member", "after"),
    [
        pytest.param(
            ROLES,
            role("x", [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]),
            {"rules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]},
            "rules",
            [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}],
            id="rules are replaced",
        ),
        pytest.param(
            BINDINGS,
            binding("x", "r", subjects=[{"kind": "User", "name": "a"}]),
            {"subjects": [{"kind": "Group", "name": "g"}]},
            "subjects",
            [{"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}],
            id="subjects are replaced",
        ),
        pytest.param(
            SECRETS,
            secret("x", {"a": "MQ=="}),
            {"stringData": {"b": "2"}, "data": {"a": None}},
            "data",
            {"b": "Mg=="},
            id="secret data",
        ),
        pytest.param(
            LEASES,
            lease("x", {"holderIdentity": "a", "leaseDurationSeconds": 9}),
            {"spec": {"holderIdentity": None}},
            "spec",
            {"leaseDurationSeconds": 9},
            id="lease",
        ),
        pytest.param(
            NAMESPACES,
            namespace("x"),
            {"spec": {"finalizers": None}},
            "spec",
            {"finalizers": ["kubernetes"]},
            id="finalizers of a namespace stay",
        ),
    ],
)
async def test_strategic_patches_merge_other_kinds(
    path: str, obj: Object, patch: Object, member: str, after: Any, api: Api
) -> None:
    await api.post(path, obj)
    assert (await api.patch(f"{path}/x", patch, STRATEGIC))[member] == after


# -- custom resources


async def test_custom_resources_have_no_strategic_patch(api: Api) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("x", {"n": 1}))
    path = f"{WIDGETS}/x"
    status = await api.refused(415, "PATCH", path, {"spec": {"n": 2}}, content_type=STRATEGIC)
    assert status["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )
    after = await api.patch(path, {"spec": {"n": 2, "deep": {"gone": None, "kept": []}}}, MERGE)
    assert (after["spec"], after["metadata"]["generation"]) == ({"n": 2, "deep": {"kept": []}}, 2)
    ops = [{"op": "add", "path": "/spec/list", "value": [1, {"z": None}]}]
    after = await api.patch(path, ops, JSON_PATCH)
    assert after["spec"]["list"] == [1, {"z": None}]
    assert after["metadata"]["generation"] == 3


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        pytest.param(
            {"metadata": {"name": "y"}},
            400,
            "the name of the object (y) does not match the name on the URL (x)",
            id="name",
        ),
        pytest.param(
            {"kind": "Gadget"},
            422,
            'Gadget.shop.example.com "x" is invalid: kind: Invalid value: "Gadget": must be Widget',
            id="kind",
        ),
        pytest.param(
            {"apiVersion": "shop.example.com/v9"},
            422,
            'Widget.shop.example.com "x" is invalid: apiVersion: Invalid value: '
            '"shop.example.com/v9": must be shop.example.com/v1',
            id="version",
        ),
        pytest.param(
            {"metadata": {"uid": "u"}},
            422,
            'Widget.shop.example.com "x" is invalid: metadata.uid: Invalid value: "u": '
            "field is immutable",
            id="uid",
        ),
    ],
)
async def test_patches_cannot_change_the_identity_of_a_custom_resource(
    patch: Object, code: int, message: str, api: Api
) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("x", {"n": 1}))
    status = await api.refused(code, "PATCH", f"{WIDGETS}/x", patch, content_type=MERGE)
    assert status["message"] == message


async def test_definitions_can_be_patched(api: Api) -> None:
    await api.install(crd())
    path = f"{CRDS}/widgets.shop.example.com"
    after = await api.patch(path, {"spec": {"names": {"shortNames": ["w"]}}}, STRATEGIC)
    assert after["spec"]["names"]["shortNames"] == ["w"]


# -- options


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        pytest.param(
            {"force": "true"},
            "force: Forbidden: may not be specified for non-apply patch",
            id="force",
        ),
        pytest.param(
            {"force": "false"},
            "force: Forbidden: may not be specified for non-apply patch",
            id="no force",
        ),
        pytest.param(
            {"fieldManager": "m" * 129},
            "fieldManager: Too long: may not be more than 128 bytes",
            id="long manager",
        ),
        pytest.param(
            {"fieldManager": "a\rb"},
            'fieldManager: Invalid value: "a\\rb": invalid character U+000D (at position 1)',
            id="unprintable manager",
        ),
        pytest.param(
            {"dryRun": "Yes"},
            'dryRun: Unsupported value: ["Yes"]: supported values: "All"',
            id="dry run",
        ),
        pytest.param(
            {"fieldValidation": "Loose"},
            'fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", '
            '"Strict", "Warn"',
            id="validation",
        ),
    ],
)
async def test_options_of_patches_are_validated(query: Object, problem: str, patched: Api) -> None:
    status = await patched.refused(422, "PATCH", X, {}, content_type=MERGE, query=query)
    assert status["message"] == f'PatchOptions.meta.k8s.io "" is invalid: {problem}'


async def test_patches_record_field_managers(patched: Api) -> None:
    await patched.patch(X, {"data": {"m": "1"}}, MERGE, query={"fieldManager": "merger"})
    ops = [{"op": "add", "path": "/data/j", "value": "1"}]
    await patched.patch(X, ops, JSON_PATCH, query={"fieldManager": "jsoner"})
    patch = {"metadata": {"labels": {"s": ""}}}
    after = await patched.patch(X, patch, STRATEGIC, query={"fieldManager": "strategist"})
    owned = {m["manager"]: m["fieldsV1"] for m in after["metadata"]["managedFields"]}
    assert owned["merger"] == {"f:data": {"f:m": {}}}
    assert owned["jsoner"] == {"f:data": {"f:j": {}}}
    assert owned["strategist"] == {"f:metadata": {"f:labels": {"f:s": {}}}}
    after = await patched.patch(X, {"data": {"m": None}}, MERGE, query={"fieldManager": "other"})
    assert {m["manager"] for m in after["metadata"]["managedFields"]} == {
        "unknown",
        "jsoner",
        "strategist",
    }
    cleared = await patched.patch(X, {"metadata": {"managedFields": [{}]}}, MERGE)
    assert "managedFields" not in cleared["metadata"]


async def test_cluster_role_is_patched_in_its_group(api: Api) -> None:
    path = f"{RBAC}/clusterroles"
    await api.post(path, role("x", [], kind="ClusterRole"))
    after = await api.patch(f"{path}/x", {"metadata": {"labels": {"a": "b"}}}, STRATEGIC)
    assert after["metadata"]["labels"] == {"a": "b"}


# -- damaged patches


async def test_patch_without_api_version_loses_every_member(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", {"a": "1"}))
    body = [{"op": "remove", "path": "/apiVersion"}]
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/x", body, content_type=JSON_PATCH)
    assert reply.json()["message"] == (
        "the name of the object (x based on URL) was undeterminable: name must be provided"
    )
    assert reply.warnings == ['unknown field "data"', 'unknown field "metadata"']


async def test_patch_without_kind_keeps_the_kind(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    body = [{"op": "remove", "path": "/kind"}]
    patched = await api.patch(f"{CONFIG_MAPS}/x", body, JSON_PATCH)
    assert patched["kind"] == "ConfigMap"


async def test_duplicate_keys_of_a_json_patch_name_the_patch(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    text = '[{"op":"add","op":"add","path":"/data","value":{"a":"1"}}]'
    reply = await api.call("PATCH", f"{CONFIG_MAPS}/x", text, content_type=JSON_PATCH)
    assert reply.warnings == ['json patch duplicate field "[0].op"']


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        pytest.param(STRATEGIC, "unexpected end of JSON input", id="strategic"),
        pytest.param(MERGE, "error decoding patch: unexpected end of JSON input", id="merge"),
    ],
)
async def test_patch_that_is_no_json(kind: str, message: str, api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    status = await api.refused(400, "PATCH", f"{CONFIG_MAPS}/x", "{", content_type=kind)
    assert status["message"] == message


async def test_order_of_an_unknown_list_is_refused(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x"))
    body: Object = {"$setElementOrder/nope": []}
    status = await api.refused(500, "PATCH", f"{CONFIG_MAPS}/x", body, content_type=STRATEGIC)
    assert status["message"] == (
        'unable to find api field in struct ConfigMap for the json field "nope"'
    )


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            {"op": "add", "path": "/metadata/labels", "value": {"a": 1}},
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            id="labels",
        ),
        pytest.param(
            {"op": "add", "path": "/apiVersion", "value": None},
            ".apiVersion accessor error: <nil> is of the type <nil>, expected string",
            id="apiVersion",
        ),
        pytest.param(
            {"op": "add", "path": "/apiVersion", "value": "v"},
            'Widget "a" is invalid: apiVersion: Invalid value: "v": must be shop.example.com/v1',
            id="another group",
        ),
    ],
)
async def test_patched_custom_resource_that_cannot_be_decoded(
    patch: Object, message: str, api: Api
) -> None:
    await api.install(crd())
    await api.post(WIDGETS, widget("a", {"b": 1}))
    status = await api.refused(422, "PATCH", f"{WIDGETS}/a", [patch], content_type=JSON_PATCH)
    assert status["message"].endswith(message)
