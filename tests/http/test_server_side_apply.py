# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: ownership, conflicts, removal, identity."""

from typing import Any

import pytest
import yaml
from tests.http.client import (
    ACCOUNTS,
    APPLY,
    CONFIG_MAPS,
    CRDS,
    LEASES,
    MERGE,
    NAMESPACES,
    RBAC,
    ROLES,
    WIDGETS,
    Api,
    account,
    config_map,
    crd,
    lease,
    namespace,
    role,
    widget,
)

from rdd.api.types import Object

X = f"{CONFIG_MAPS}/x"
W = f"{WIDGETS}/w"

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "hue": {"type": "string", "default": "grey"},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {
                            "id": {"type": "string"},
                            "count": {"type": "integer"},
                            "notes": {
                                "type": "object",
                                "additionalProperties": {"type": "string"},
                            },
                        },
                    },
                },
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                },
                "plain": {"type": "array", "items": {"type": "integer"}},
            },
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


@pytest.fixture
async def shop(api: Api) -> Api:
    """A server with widgets whose schema has lists and maps of all types."""
    await api.install(crd(schema=SCHEMA, subresources={"status": {}}))
    return api


def owned(obj: Object, manager: str, operation: str = "Apply") -> Any:
    """Return the fields that a manager owns, None if there are none."""
    for entry in obj["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            return entry["fieldsV1"]
    return None


async def conflicts(api: Api, path: str, body: Object, manager: str) -> list[tuple[str, str]]:
    """Return the fields and messages of the conflicts of an apply."""
    query = {"fieldManager": manager}
    status = await api.refused(409, "PATCH", path, body, content_type=APPLY, query=query)
    assert status["reason"] == "Conflict"
    assert {c["reason"] for c in status["details"]["causes"]} == {"FieldManagerConflict"}
    return [(c["field"], c["message"]) for c in status["details"]["causes"]]


# -- creation, change, removal


async def test_first_apply_creates_and_second_changes_nothing(api: Api) -> None:
    body = config_map("x", {"a": "1"}, labels={"l": ""})
    made = await api.apply(X, body, expect=201)
    assert owned(made, "tester") == {
        "f:data": {"f:a": {}},
        "f:metadata": {"f:labels": {"f:l": {}}},
    }
    assert await api.apply(X, body, expect=200) == made


async def test_fields_that_are_no_longer_applied_are_removed(api: Api) -> None:
    await api.apply(X, config_map("x", {"a": "1", "b": "2"}, labels={"l": "", "m": ""}))
    less = await api.apply(X, config_map("x", {"a": "1"}, labels={"l": ""}))
    assert (less["data"], less["metadata"]["labels"]) == ({"a": "1"}, {"l": ""})
    none = await api.apply(X, config_map("x"))
    assert "data" not in none
    assert "managedFields" not in none["metadata"]


async def test_fields_of_other_managers_stay(api: Api) -> None:
    await api.apply(X, config_map("x", {"a": "1"}), "one")
    await api.apply(X, config_map("x", {"b": "2"}), "two")
    both = await api.apply(X, config_map("x"), "one")
    assert both["data"] == {"b": "2"}


async def test_shared_field_is_removed_when_its_last_manager_drops_it(api: Api) -> None:
    for manager in ("one", "two"):
        await api.apply(X, config_map("x", {"a": "1"}), manager)
    assert (await api.apply(X, config_map("x"), "one"))["data"] == {"a": "1"}
    assert "data" not in await api.apply(X, config_map("x"), "two")


# -- conflicts


async def test_changing_a_field_of_another_manager_is_a_conflict(api: Api) -> None:
    await api.apply(X, config_map("x", {"a": "1"}), "one")
    body = config_map("x", {"a": "2"})
    assert await conflicts(api, X, body, "two") == [(".data.a", 'conflict with "one"')]
    taken = await api.apply(X, body, "two", force=True)
    assert (taken["data"], owned(taken, "one")) == ({"a": "2"}, None)
    assert await conflicts(api, X, config_map("x", {"a": "1"}), "one") == [
        (".data.a", 'conflict with "two"')
    ]


async def test_conflicts_are_grouped_by_manager(api: Api) -> None:
    await api.apply(X, config_map("x", {"a": "1", "b": "1"}), "one")
    await api.apply(X, config_map("x", {"c": "1"}, labels={"l": "1"}), "two")
    body = config_map("x", {"a": "2", "b": "2", "c": "2"}, labels={"l": "2"})
    query = {"fieldManager": "three"}
    status = await api.refused(409, "PATCH", X, body, content_type=APPLY, query=query)
    assert status["message"] == (
        'Apply failed with 4 conflicts: conflicts with "one":\n- .data.a\n- .data.b\n'
        'conflicts with "two":\n- .data.c\n- .metadata.labels.l'
    )


async def test_conflict_with_an_updater_names_the_version(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", {"a": "1"}), query={"fieldManager": "maker"})
    assert await conflicts(api, X, config_map("x", {"a": "2"}), "one") == [
        (".data.a", 'conflict with "maker" using v1')
    ]
    shared = await api.apply(X, config_map("x", {"a": "1"}), "one")
    assert owned(shared, "one") == {"f:data": {"f:a": {}}}
    assert owned(shared, "maker", "Update") == {"f:data": {".": {}, "f:a": {}}}


async def test_update_takes_ownership_of_changed_fields(api: Api) -> None:
    await api.apply(X, config_map("x", {"a": "1", "b": "1"}), "one")
    query = {"fieldManager": "editor"}
    after = await api.put(X, config_map("x", {"a": "2", "b": "1"}), query=query)
    assert owned(after, "one") == {"f:data": {"f:b": {}}}
    assert owned(after, "editor", "Update") == {"f:data": {"f:a": {}}}
    assert await conflicts(api, X, config_map("x", {"a": "1", "b": "1"}), "one") == [
        (".data.a", 'conflict with "editor" using v1')
    ]


async def test_update_that_removes_a_field_releases_it(api: Api) -> None:
    await api.apply(X, config_map("x", {"a": "1", "b": "1"}), "one")
    after = await api.put(X, config_map("x", {"b": "1"}))
    assert owned(after, "one") == {"f:data": {"f:b": {}}}
    again = await api.apply(X, config_map("x", {"a": "1", "b": "1"}), "one")
    assert again["data"] == {"a": "1", "b": "1"}


async def test_one_name_that_applies_and_updates_is_two_managers(api: Api) -> None:
    await api.apply(X, config_map("x", {"a": "1"}), "same")
    await api.patch(X, {"data": {"a": "2"}}, MERGE, query={"fieldManager": "same"})
    assert await conflicts(api, X, config_map("x", {"a": "1"}), "same") == [
        (".data.a", 'conflict with "same" using v1')
    ]


async def test_cleared_managed_fields_are_owned_by_before_first_apply(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("x", {"a": "1"}))
    nothing: list[list[Object]] = [[], [{}]]
    for cleared in nothing:
        await api.put(X, config_map("x", {"a": "1"}, managedFields=cleared))
        assert "managedFields" not in (await api.get(X))["metadata"]
    assert await conflicts(api, X, config_map("x", {"a": "2"}), "one") == [
        (".data.a", 'conflict with "before-first-apply" using v1')
    ]


# -- validation of the body


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        pytest.param({}, "fieldManager: Required value: is required for apply patch", id="none"),
        pytest.param(
            {"fieldManager": "m" * 129},
            "fieldManager: Too long: may not be more than 128 bytes",
            id="long",
        ),
        pytest.param(
            {"fieldManager": "a\tb"},
            'fieldManager: Invalid value: "a\\tb": invalid character U+0009 (at position 1)',
            id="unprintable",
        ),
    ],
)
async def test_manager_is_required(query: Object, problem: str, api: Api) -> None:
    status = await api.refused(422, "PATCH", X, config_map("x"), content_type=APPLY, query=query)
    assert status["message"] == f'PatchOptions.meta.k8s.io "" is invalid: {problem}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({"metadata": {"name": "x"}}, "invalid object type: /, Kind=", id="no type"),
        pytest.param(
            config_map("x") | {"kind": "Secret"},
            "invalid object type: /v1, Kind=Secret",
            id="another kind",
        ),
        pytest.param(
            config_map("x") | {"apiVersion": "apps/v1"},
            "invalid object type: apps/v1, Kind=ConfigMap",
            id="another group",
        ),
        pytest.param(
            config_map("y"),
            "the name of the object (y) does not match the name on the URL (x)",
            id="another name",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap"},
            "the name of the object (x based on URL) was undeterminable: name must be provided",
            id="no name",
        ),
        pytest.param(
            config_map("x", namespace="elsewhere"),
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param(
            config_map("x", managedFields=[{"manager": "m"}]),
            "metadata.managedFields must be nil",
            id="managers",
        ),
    ],
)
async def test_body_must_be_the_object_of_the_path(body: Object, message: str, api: Api) -> None:
    query = {"fieldManager": "m"}
    status = await api.refused(400, "PATCH", X, body, content_type=APPLY, query=query)
    assert status["message"] == message


@pytest.mark.parametrize("mode", ["", "Ignore", "Warn", "Strict"])
async def test_unknown_fields_are_always_rejected(mode: str, api: Api) -> None:
    body = config_map("x") | {"oddity": 1}
    query = {"fieldManager": "m", "fieldValidation": mode}
    status = await api.refused(500, "PATCH", X, body, content_type=APPLY, query=query)
    assert "reason" not in status
    assert status["message"] == (
        "failed to create typed patch object (/x; /v1, Kind=ConfigMap): "
        ".oddity: field not declared in schema"
    )


async def test_duplicate_yaml_keys_are_a_warning_or_an_error(api: Api) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata:\n  a: one\n  a: two\n"
    reply = await api.call("PATCH", X, text, content_type=APPLY, query={"fieldManager": "m"})
    assert (reply.status, reply.json()["data"]) == (201, {"a": "two"})
    assert reply.warnings == ['line 6: key "a" already set in map']
    query = {"fieldManager": "m", "fieldValidation": "Strict"}
    status = await api.refused(400, "PATCH", X, text, content_type=APPLY, query=query)
    assert status["message"].startswith("error strict decoding YAML: ")


async def test_yaml_and_json_bodies_are_equivalent(api: Api) -> None:
    body = config_map("x", {"a": "1"}, annotations={"b": "c"})
    made = await api.apply(X, yaml.safe_dump(body), expect=201)
    assert await api.apply(X, body, expect=200) == made


@pytest.mark.parametrize("media", ["application/apply-patch+json", "application/apply-patch"])
async def test_other_apply_media_types_are_rejected(media: str, api: Api) -> None:
    query = {"fieldManager": "m"}
    await api.refused(415, "PATCH", X, config_map("x"), content_type=media, query=query)


async def test_versions_and_uids_are_preconditions(api: Api) -> None:
    made = await api.apply(X, config_map("x", {"a": "1"}, resourceVersion="3"), expect=201)
    old = made["metadata"]["resourceVersion"]
    await api.apply(X, config_map("x", {"a": "2"}, resourceVersion=old))
    query = {"fieldManager": "tester"}
    stale = config_map("x", {"a": "3"}, resourceVersion=old)
    await api.refused(409, "PATCH", X, stale, content_type=APPLY, query=query)
    await api.apply(X, config_map("x", {"a": "2"}, uid=made["metadata"]["uid"]))
    other = config_map("x", {"a": "2"}, uid="other")
    status = await api.refused(422, "PATCH", X, other, content_type=APPLY, query=query)
    assert status["message"].endswith('metadata.uid: Invalid value: "other": field is immutable')
    new = config_map("y", uid="other")
    status = await api.refused(
        409, "PATCH", f"{CONFIG_MAPS}/y", new, content_type=APPLY, query=query
    )
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "y": uid mismatch: the provided object '
        "specified uid other, and no existing object was found"
    )


async def test_null_values_can_be_owned(api: Api) -> None:
    made = await api.apply(X, config_map("x", {"a": None, "b": "2"}))
    assert made["data"] == {"a": "", "b": "2"}
    body = config_map("x", labels=None) | {"data": None}
    none = await api.apply(X, body)
    assert "data" not in none
    assert owned(none, "tester") == {"f:data": {}, "f:metadata": {"f:labels": {}}}


async def test_dry_run_applies_nothing(api: Api) -> None:
    made = await api.apply(X, config_map("x", {"a": "1"}), dryRun="All", expect=201)
    assert owned(made, "tester") == {"f:data": {"f:a": {}}}
    await api.refused(404, "GET", X)
    path = f"{CRDS}/widgets.shop.example.com"
    await api.apply(path, crd(), dryRun="All", expect=201)
    await api.refused(404, "GET", path)


# -- kinds


async def test_rules_of_roles_are_atomic(api: Api) -> None:
    for path, kind in ((ROLES, "Role"), (f"{RBAC}/clusterroles", "ClusterRole")):
        rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
        made = await api.apply(f"{path}/x", role("x", rules, kind=kind), "one")
        assert owned(made, "one") == {"f:rules": {}}
        other = [{**rules[0], "verbs": ["list"]}]
        body = role("x", other, kind=kind)
        assert await conflicts(api, f"{path}/x", body, "two") == [(".rules", 'conflict with "one"')]
        taken = await api.apply(f"{path}/x", body, "two", force=True)
        assert taken["rules"] == other


async def test_secrets_of_accounts_merge_pull_secrets_do_not(api: Api) -> None:
    path = f"{ACCOUNTS}/x"
    body = account("x", secrets=[{"name": "a"}], imagePullSecrets=[{"name": "p"}])
    await api.apply(path, body, "one")
    both = await api.apply(path, account("x", secrets=[{"name": "b"}]), "two")
    assert [s["name"] for s in both["secrets"]] == ["a", "b"]
    other = account("x", imagePullSecrets=[{"name": "q"}])
    assert await conflicts(api, path, other, "two") == [
        (".imagePullSecrets", 'conflict with "one"')
    ]


async def test_finalizers_are_a_set(api: Api) -> None:
    a, b = "shop.example.com/a", "shop.example.com/b"
    await api.apply(X, config_map("x", finalizers=[a]), "one")
    both = await api.apply(X, config_map("x", finalizers=[b]), "two")
    assert both["metadata"]["finalizers"] == [a, b]
    assert owned(both, "two") == {"f:metadata": {"f:finalizers": {f'v:"{b}"': {}}}}
    less = await api.apply(X, config_map("x", finalizers=[]), "one")
    assert less["metadata"]["finalizers"] == [b]


async def test_lease_is_applied_field_by_field(api: Api) -> None:
    path = f"{LEASES}/x"
    await api.apply(path, lease("x", {"holderIdentity": "a", "leaseDurationSeconds": 9}), "one")
    assert await conflicts(api, path, lease("x", {"holderIdentity": "b"}), "two") == [
        (".spec.holderIdentity", 'conflict with "one"')
    ]
    after = await api.apply(path, lease("x", {"leaseTransitions": 1}), "two")
    assert after["spec"] == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 9,
        "leaseTransitions": 1,
    }


async def test_namespace_and_its_status_have_separate_managers(api: Api) -> None:
    path = f"{NAMESPACES}/x"
    await api.apply(path, namespace("x", labels={"a": "b"}), "one")
    condition = {"type": "Good", "status": "True", "reason": "R", "message": "m"}
    body = namespace("x") | {"status": {"conditions": [condition]}}
    after = await api.apply(f"{path}/status", body, "two")
    entry = next(m for m in after["metadata"]["managedFields"] if m["manager"] == "two")
    assert entry["subresource"] == "status"
    assert after["status"]["conditions"][0]["type"] == "Good"


# -- custom resources


async def test_entries_of_a_list_map_have_separate_managers(shop: Api) -> None:
    await shop.apply(W, widget("w", {"parts": [{"id": "a", "count": 1}]}), "one")
    both = await shop.apply(W, widget("w", {"parts": [{"id": "b", "count": 2}]}), "two")
    assert [p["id"] for p in both["spec"]["parts"]] == ["a", "b"]
    assert owned(both, "two") == {
        "f:spec": {"f:parts": {'k:{"id":"b"}': {".": {}, "f:id": {}, "f:count": {}}}}
    }
    body = widget("w", {"parts": [{"id": "a", "count": 5}]})
    assert await conflicts(shop, W, body, "two") == [
        ('.spec.parts[id="a"].count', 'conflict with "one"')
    ]
    less = await shop.apply(W, widget("w", {"parts": []}), "one")
    assert [p["id"] for p in less["spec"]["parts"]] == ["b"]
    more = await shop.apply(W, widget("w", {"parts": [{"id": "b", "notes": {"n": "o"}}]}), "one")
    assert more["spec"]["parts"] == [{"id": "b", "count": 2, "notes": {"n": "o"}}]


async def test_order_of_a_list_map_follows_the_last_applier(shop: Api) -> None:
    def body(ids: str) -> Object:
        return widget("w", {"parts": [{"id": i} for i in ids]})

    await shop.apply(W, body("ca"), "one")
    after = await shop.apply(W, body("ba"), "two")
    assert [p["id"] for p in after["spec"]["parts"]] == ["c", "b", "a"]
    after = await shop.apply(W, body("ac"), "one")
    assert [p["id"] for p in after["spec"]["parts"]] == ["b", "a", "c"]


async def test_sets_merge_and_atomic_values_do_not(shop: Api) -> None:
    first = {"tags": ["t"], "whole": {"a": 1}, "plain": [1]}
    await shop.apply(W, widget("w", first), "one")
    both = await shop.apply(W, widget("w", {"tags": ["u"]}), "two")
    assert both["spec"]["tags"] == ["t", "u"]
    for member, value in (("whole", {"b": 2}), ("plain", [2])):
        assert await conflicts(shop, W, widget("w", {member: value}), "two") == [
            (f".spec.{member}", 'conflict with "one"')
        ]
    taken = await shop.apply(W, widget("w", {"whole": {"b": 2}}), "two", force=True)
    assert taken["spec"]["whole"] == {"b": 2}


async def test_defaults_have_no_manager(shop: Api) -> None:
    made = await shop.apply(W, widget("w", {"size": 1}), "one")
    assert made["spec"] == {"size": 1, "hue": "grey"}
    assert owned(made, "one") == {"f:spec": {"f:size": {}}}
    await shop.apply(W, widget("w", {"hue": "red"}), "two")
    after = await shop.apply(W, widget("w", {}), "two")
    assert after["spec"]["hue"] == "grey"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param(
            {"parts": [{"id": "a"}, {"id": "a"}]},
            '.spec.parts: duplicate entries for key [id="a"]',
            id="key twice",
        ),
        pytest.param(
            {"parts": [{"count": 1}]},
            ".spec.parts: element 0: associative list with keys has an element that omits all "
            'key fields ["id"] (and doesn\'t have default values for any key fields)',
            id="no key",
        ),
        pytest.param(
            {"tags": ["t", "t"]}, '.spec.tags: duplicate entries for key [="t"]', id="value twice"
        ),
        pytest.param(
            {"size": "big"},
            ".spec.size: expected numeric (int or float), got string",
            id="wrong type",
        ),
        pytest.param({"odd": 1}, ".spec.odd: field not declared in schema", id="unknown field"),
        pytest.param({"tags": "t"}, ".spec.tags: expected list, got ", id="no list"),
    ],
)
async def test_values_that_violate_the_schema_cannot_be_applied(
    spec: Object, problem: str, shop: Api
) -> None:
    query = {"fieldManager": "m"}
    status = await shop.refused(500, "PATCH", W, widget("w", spec), content_type=APPLY, query=query)
    assert status["message"].startswith(
        "failed to create typed patch object (/w; shop.example.com/v1, Kind=Widget): " + problem
    )


async def test_status_is_applied_separately(shop: Api) -> None:
    query = {"fieldManager": "st"}
    body = widget("w") | {"status": {"phase": "Good"}}
    status = await shop.refused(404, "PATCH", f"{W}/status", body, content_type=APPLY, query=query)
    assert status["message"] == 'widgets.shop.example.com "w" not found'
    await shop.apply(W, widget("w", {"size": 1}), "one")
    after = await shop.apply(f"{W}/status", body, "st")
    assert (after["status"], after["spec"]["size"]) == ({"phase": "Good"}, 1)
    ignored = await shop.apply(W, widget("w", {"size": 2}) | {"status": {"phase": "Bad"}}, "one")
    assert ignored["status"] == {"phase": "Good"}


async def test_fields_outside_the_schema_are_owned_individually(api: Api) -> None:
    await api.install(crd())
    made = await api.apply(W, widget("w", {"list": [1], "map": {"deep": {"n": 1}}}), "one")
    fields: Object = {"f:list": {}, "f:map": {".": {}, "f:deep": {".": {}, "f:n": {}}}}
    assert owned(made, "one") == {"f:spec": fields}
    after = await api.apply(W, widget("w", {"map": {"more": 1}}), "two")
    assert after["spec"]["map"] == {"deep": {"n": 1}, "more": 1}
    assert await conflicts(api, W, widget("w", {"list": [2]}), "two") == [
        (".spec.list", 'conflict with "one"')
    ]


# -- what a write owns


QUOTAS = "/api/v1/namespaces/default/resourcequotas"
BINDING_OF_POLICY = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "b"},
    "spec": {"policyName": "p", "validationActions": ["Deny"]},
}
QUOTA: Object = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q"},
    "spec": {"hard": {"pods": "1"}},
}


def owned_by(obj: Object, manager: str, subresource: str = "") -> Object:
    """Return the fields of the entry of a manager."""
    (fields,) = [
        e["fieldsV1"]
        for e in obj["metadata"]["managedFields"]
        if e["manager"] == manager and e.get("subresource", "") == subresource
    ]
    result: Object = fields
    return result


@pytest.mark.parametrize(
    ("path", "body", "fields"),
    [
        pytest.param(
            LEASES,
            lease("l", {"holderIdentity": "me"}),
            {"f:spec": {"f:holderIdentity": {}}},
            id="spec of a lease",
        ),
        pytest.param(
            QUOTAS, QUOTA, {"f:spec": {"f:hard": {".": {}, "f:pods": {}}}}, id="spec of a quota"
        ),
        pytest.param(
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
            BINDING_OF_POLICY,
            {"f:spec": {"f:policyName": {}, "f:validationActions": {".": {}, 'v:"Deny"': {}}}},
            id="spec of a binding",
        ),
        pytest.param(
            f"{RBAC}/clusterroles",
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": "c"},
                "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]},
            },
            {"f:aggregationRule": {".": {}, "f:clusterRoleSelectors": {}}},
            id="rules of an aggregated role",
        ),
    ],
)
async def test_creator_does_not_own_what_every_object_has(
    path: str, body: Object, fields: Object, api: Api
) -> None:
    created = await api.post(path, body, query={"fieldManager": "m"})
    assert owned_by(created, "m") == fields


async def test_creator_does_not_own_the_names_of_a_definition_nor_unset_times(api: Api) -> None:
    created = await api.post(CRDS, crd(), query={"fieldManager": "m"})
    names = owned_by(created, "m")["f:spec"]["f:names"]
    assert "." not in names and "f:kind" in names
    events = "/api/v1/namespaces/default/events"
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"namespace": "default"},
    }
    created = await api.post(events, body, query={"fieldManager": "m"})
    assert set(owned_by(created, "m")) == {"f:involvedObject"}


async def test_status_of_a_namespace_owns_its_labels(api: Api) -> None:
    await api.apply(f"{NAMESPACES}/n", namespace("n"), "m")
    body = {**namespace("n", labels={"a": "1"}), "status": {"phase": "Active"}}
    applied = await api.apply(f"{NAMESPACES}/n/status", body, "m")
    assert owned_by(applied, "m", "status") == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:status": {"f:phase": {}},
    }


async def test_status_of_a_namespace_defaults_its_phase(api: Api) -> None:
    await api.post(NAMESPACES, namespace("n"))
    stored = await api.put(f"{NAMESPACES}/n/status", {**namespace("n"), "status": {}})
    assert stored["status"] == {"phase": "Active"}


async def test_empty_owners_of_a_custom_resource_are_not_sent(api: Api) -> None:
    await api.install(crd())
    await api.apply(W, widget("w", {"a": 1}), "m")
    patched = await api.patch(W, {"metadata": {"managedFields": []}}, MERGE)
    assert owned_by(patched, "m") == {"f:spec": {"f:a": {}}}
    await api.apply(X, config_map("x", {"a": "1"}), "m")
    patched = await api.patch(X, {"metadata": {"managedFields": []}}, MERGE)
    assert "managedFields" not in patched["metadata"]


# -- damaged configurations


async def test_item_without_its_key_is_validated(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u1"}
    body = config_map("x", ownerReferences=[owner, {}])
    await api.refused(422, "PATCH", X, body, content_type=APPLY, query={"fieldManager": "m"})


async def test_value_of_the_wrong_form_is_a_conversion_error(api: Api) -> None:
    body = lease("l", {"renewTime": "never"})
    status = await api.refused(
        500, "PATCH", f"{LEASES}/l", body, content_type=APPLY, query={"fieldManager": "m"}
    )
    assert status["message"].startswith(
        "failed to convert new object (/l; coordination.k8s.io/v1, Kind=Lease) to proper version: "
        "unable to convert unstructured object to coordination.k8s.io/v1, Kind=Lease: parsing time"
    )


async def test_kind_that_is_no_text_is_empty_in_the_error(api: Api) -> None:
    body = {**config_map("x"), "kind": 1}
    status = await api.refused(
        400, "PATCH", X, body, content_type=APPLY, query={"fieldManager": "m"}
    )
    assert status["message"] == "invalid object type: /v1, Kind="


async def test_duplicate_keys_are_reported_after_errors_of_the_schema(api: Api) -> None:
    text = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":[1],"a":[2]}}'
    for mode in ("Warn", "Strict"):
        query = {"fieldManager": "m", "fieldValidation": mode}
        reply = await api.call("PATCH", X, text, content_type=APPLY, query=query)
        assert (reply.status, reply.warnings) == (500, [])


async def test_apply_that_creates_keeps_the_deletion_timestamp(api: Api) -> None:
    body = config_map("x", deletionTimestamp="2001-01-01T00:00:00Z", finalizers=["a.io/b"])
    created = await api.apply(X, body, "m")
    assert created["metadata"]["deletionTimestamp"] == "2001-01-01T00:00:00Z"
    await api.post(CONFIG_MAPS, {**body, "metadata": {**body["metadata"], "name": "y"}})
    assert "deletionTimestamp" not in (await api.get(f"{CONFIG_MAPS}/y"))["metadata"]
