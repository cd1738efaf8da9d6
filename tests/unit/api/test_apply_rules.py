# SPDX-License-Identifier: Apache-2.0
"""Server-side apply: merging, ownership, conflicts and errors."""

import copy
from typing import Any

import pytest

from rdd.api import errors, managedfields, names
from rdd.api.apply import apply
from rdd.api.types import Object
from rdd.schema.node import compile_node

T0, T1, T2 = (f"2024-01-01T00:00:0{i}Z" for i in range(3))
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
NODE = compile_node(
    {
        "type": "object",
        "properties": {
            "data": STRINGS,
            "spec": {
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "b": {"type": "boolean"},
                    "t": {"type": "string"},
                    "d": {"type": "string", "default": "dflt"},
                    "set": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string"},
                    },
                    "m": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "k": {"type": "string"},
                                "v": {"type": "integer"},
                                "n": STRINGS,
                            },
                        },
                    },
                    "atomic": {"type": "array", "items": {"type": "integer"}},
                    "am": {**STRINGS, "x-kubernetes-map-type": "atomic"},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "conditions": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                        "items": {"type": "object", "properties": {"type": {"type": "string"}}},
                    }
                },
            },
        },
    }
)


def config(**members: Any) -> Object:
    meta = members.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", **meta}, **members}


def applied(
    live: Object | None, manager: str, patch: Object, now: str = T0, **kwargs: Any
) -> Object:
    """The object as it is stored after an apply; neither input may change."""
    before = copy.deepcopy((live, patch))
    new = apply(
        live=live, patch=patch, node=NODE, manager=manager, api_version="v1", now=now, **kwargs
    )
    assert (live, patch) == before
    new = copy.deepcopy(new)
    new["metadata"]["uid"] = "u"
    return new


def updated(live: Object | None, manager: str, new: Object, now: str = T0, **kwargs: Any) -> Object:
    new = copy.deepcopy(new)
    managedfields.update(
        live=live, new=new, node=NODE, manager=manager, api_version="v1", now=now, **kwargs
    )
    new["metadata"]["uid"] = "u"
    return new


def owned(stored: Object) -> dict[str, Any]:
    return {e["manager"]: e["fieldsV1"] for e in stored["metadata"].get("managedFields", [])}


def conflict(live: Object | None, manager: str, patch: Object, **kwargs: Any) -> errors.Conflict:
    with pytest.raises(errors.Conflict) as e:
        applied(live, manager, patch, **kwargs)
    return e.value


def test_apply_creates_and_owns_applied_fields() -> None:
    patch = config(metadata={"labels": {"l": "1"}}, data={"k": "v"})
    stored = applied(None, "mgr", patch)
    assert stored["data"] == {"k": "v"}
    assert stored["metadata"]["managedFields"] == [
        {
            "manager": "mgr",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": T0,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:l": {}}}},
        }
    ]


def test_applying_the_same_again_changes_nothing_not_even_the_time() -> None:
    patch = config(data={"k": "v"}, spec={"m": [{"k": "a", "v": 1}], "set": ["x"]})
    stored = applied(None, "mgr", patch)
    assert applied(stored, "mgr", patch, T1) == stored


def test_fields_no_longer_applied_are_removed() -> None:
    stored = applied(
        None, "mgr", config(metadata={"labels": {"a": "1", "b": "2"}}, data={"k": "v", "l": "w"})
    )
    stored = applied(stored, "mgr", config(metadata={"labels": {"a": "1"}}, data={"k": "v"}), T1)
    assert stored["data"] == {"k": "v"}
    assert stored["metadata"]["labels"] == {"a": "1"}
    stored = applied(stored, "mgr", config(), T2)
    assert stored == config(metadata={"uid": "u"})


def test_fields_of_others_stay_when_dropped() -> None:
    stored = applied(None, "one", config(data={"k": "v", "l": "w"}))
    stored = applied(stored, "two", config(data={"k": "v"}))
    stored = applied(stored, "one", config(), T1)
    assert stored["data"] == {"k": "v"}
    assert owned(stored) == {"two": {"f:data": {"f:k": {}}}}


def test_unowned_fields_are_not_removed() -> None:
    stored = applied(None, "one", config(spec={"x": 1}))
    stored["spec"]["d"] = "dflt"
    stored = applied(stored, "two", config(spec={"t": "mine"}))
    stored = applied(stored, "one", config(), T1)
    assert stored["spec"] == {"d": "dflt", "t": "mine"}


def test_unowned_parts_of_a_removed_item_go_with_it() -> None:
    stored = applied(None, "one", config(spec={"m": [{"k": "a"}, {"k": "b"}], "x": 1}))
    stored["spec"]["m"][0]["v"] = 5
    stored = applied(stored, "one", config(spec={"m": [{"k": "b"}], "x": 1}), T1)
    assert stored["spec"]["m"] == [{"k": "b"}]


def test_two_managers_with_different_values_conflict() -> None:
    stored = applied(None, "m1", config(data={"k": "v"}))
    error = conflict(stored, "m2", config(data={"k": "w"}))
    assert error.to_status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "m1": .data.k',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "m1"',
                    "field": ".data.k",
                }
            ]
        },
        "code": 409,
    }


def test_several_conflicts_are_listed_by_manager() -> None:
    stored = applied(None, "m1", config(data={"k": "v", "l": "w"}))
    stored = applied(stored, "m2", config(metadata={"labels": {"x": "1"}}, data={"z": "q"}))
    patch = config(metadata={"labels": {"x": "2"}}, data={"k": "1", "l": "2", "z": "3"})
    error = conflict(stored, "m3", patch)
    assert error.message == (
        'Apply failed with 4 conflicts: conflicts with "m1":\n- .data.k\n- .data.l\n'
        'conflicts with "m2":\n- .data.z\n- .metadata.labels.x'
    )
    assert error.details is not None
    assert [c["field"] for c in error.details["causes"]] == [
        ".data.k",
        ".data.l",
        ".data.z",
        ".metadata.labels.x",
    ]


def test_conflict_with_an_updater_names_its_version_and_subresource() -> None:
    stored = updated(None, "upd", config(spec={"m": [{"k": "a", "v": 1}]}))
    error = conflict(stored, "m1", config(spec={"m": [{"k": "a", "v": 2}]}))
    assert error.message == (
        'Apply failed with 1 conflict: conflict with "upd" using v1: .spec.m[k="a"].v'
    )
    status = updated(stored, "ctl", {**stored, "data": {"k": "v"}}, subresource="status")
    error = conflict(status, "m1", config(data={"k": "w"}))
    assert 'conflict with "ctl" with subresource "status" using v1' in error.message


def test_force_takes_the_fields() -> None:
    stored = updated(None, "upd", config(data={"k": "v"}))
    stored = applied(stored, "m1", config(data={"k": "w"}), T1, force=True)
    assert stored["data"] == {"k": "w"}
    assert owned(stored) == {"m1": {"f:data": {"f:k": {}}}, "upd": {"f:data": {}}}


def test_applying_the_existing_value_shares_ownership_without_a_time() -> None:
    stored = updated(None, "upd", config(data={"k": "v"}))
    stored = applied(stored, "m1", config(data={"k": "v"}), T1)
    first, second = stored["metadata"]["managedFields"]
    assert (first["manager"], first["fieldsV1"]) == ("m1", {"f:data": {"f:k": {}}})
    assert "time" not in first
    assert second["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}


def test_update_takes_fields_from_an_applier() -> None:
    stored = applied(None, "m1", config(data={"k": "v", "l": "w"}))
    stored = updated(stored, "upd", config(data={"k": "2", "l": "w"}), T1)
    assert owned(stored) == {"m1": {"f:data": {"f:l": {}}}, "upd": {"f:data": {"f:k": {}}}}
    conflict(stored, "m1", config(data={"k": "v", "l": "w"}))


def test_same_name_as_applier_and_updater_are_two_managers() -> None:
    stored = applied(None, "same", config(data={"k": "v"}))
    stored = updated(stored, "same", config(data={"k": "w"}), T1)
    assert [e["operation"] for e in stored["metadata"]["managedFields"]] == ["Update"]
    error = conflict(stored, "same", config(data={"k": "v"}))
    assert error.message.endswith('conflict with "same" using v1: .data.k')


def test_untracked_object_conflicts_with_before_first_apply() -> None:
    live = config(metadata={"uid": "u"}, data={"k": "v"})
    error = conflict(live, "mgr", config(data={"k": "z"}))
    assert error.message.endswith('conflict with "before-first-apply" using v1: .data.k')
    stored = applied(live, "mgr", config(data={"l": "w"}))
    assert owned(stored) == {
        "mgr": {"f:data": {"f:l": {}}},
        "before-first-apply": {"f:data": {".": {}, "f:k": {}}},
    }
    untracked = config(metadata={"uid": "u"})
    assert owned(applied(untracked, "mgr", config(data={"l": "w"}))) == {
        "mgr": {"f:data": {"f:l": {}}}
    }


def test_lists_of_sets_belong_to_each_applier() -> None:
    stored = applied(None, "m1", config(metadata={"finalizers": ["a"]}))
    stored = applied(stored, "m2", config(metadata={"finalizers": ["b"]}))
    assert stored["metadata"]["finalizers"] == ["a", "b"]
    stored = applied(stored, "m1", config(metadata={"finalizers": []}), T1)
    assert stored["metadata"]["finalizers"] == ["b"]
    assert owned(stored) == {"m2": {"f:metadata": {"f:finalizers": {'v:"b"': {}}}}}


def test_list_maps_merge_by_key() -> None:
    stored = applied(None, "m1", config(spec={"m": [{"k": "a", "v": 1}]}))
    stored = applied(stored, "m2", config(spec={"m": [{"k": "b", "v": 2}]}))
    stored = applied(stored, "m1", config(spec={"m": []}), T1)
    assert stored["spec"]["m"] == [{"k": "b", "v": 2}]
    stored = applied(stored, "m1", config(spec={"m": [{"k": "b", "n": {"q": "r"}}]}), T1)
    assert stored["spec"]["m"] == [{"k": "b", "v": 2, "n": {"q": "r"}}]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param("ca", "ba", "cba", id="new-before-shared"),
        pytest.param("abc", "cb", "acb", id="order-of-the-applier-wins"),
        pytest.param("abc", "x", "abcx", id="new-ones-last"),
        pytest.param("abc", "xb", "axbc", id="new-before-its-neighbour"),
        pytest.param("ab", "abc", "abc", id="appended"),
        pytest.param("abcd", "dcba", "dcba", id="reversed"),
        pytest.param("abc", "bx", "abcx", id="new-ones-after-the-known-ones"),
    ],
)
def test_items_are_ordered_by_the_applier_and_near_their_neighbours(
    first: str, second: str, expected: str
) -> None:
    stored = applied(None, "m1", config(spec={"m": [{"k": k} for k in first], "set": list(first)}))
    stored = applied(
        stored, "m2", config(spec={"m": [{"k": k} for k in second], "set": list(second)})
    )
    assert "".join(i["k"] for i in stored["spec"]["m"]) == expected
    assert "".join(stored["spec"]["set"]) == expected


def test_atomic_values_are_owned_as_a_whole() -> None:
    stored = applied(None, "m1", config(spec={"atomic": [1], "am": {"a": "b"}}))
    assert owned(stored) == {"m1": {"f:spec": {"f:atomic": {}, "f:am": {}}}}
    error = conflict(stored, "m2", config(spec={"atomic": [2], "am": {"c": "d"}}))
    assert "- .spec.am\n- .spec.atomic" in error.message
    stored = applied(stored, "m2", config(spec={"am": {"c": "d"}}), force=True)
    assert stored["spec"] == {"atomic": [1], "am": {"c": "d"}}


def test_undeclared_members_are_merged_by_their_value() -> None:
    stored = applied(None, "m1", config(spec={"free": {"l": [1, 2], "o": {"p": {"q": 1}}}}))
    stored = applied(stored, "m2", config(spec={"free": {"o": {"r": 1}}}))
    assert stored["spec"]["free"] == {"l": [1, 2], "o": {"p": {"q": 1}, "r": 1}}
    assert owned(stored)["m2"] == {"f:spec": {"f:free": {"f:o": {".": {}, "f:r": {}}}}}
    conflict(stored, "m2", config(spec={"free": {"l": [3]}}))


def test_null_is_applied_and_owned() -> None:
    stored = applied(None, "mgr", config(metadata={"labels": None}, data={"k": None}))
    assert stored["data"] == {"k": None}
    assert owned(stored) == {"mgr": {"f:metadata": {"f:labels": {}}, "f:data": {"f:k": {}}}}


def test_empty_objects_are_owned_and_conflict() -> None:
    stored = applied(None, "m1", config(data={}))
    assert owned(stored) == {"m1": {"f:data": {}}}
    del stored["data"]
    assert conflict(stored, "m2", config(data={})).message.endswith('conflict with "m1": .data')


def test_empty_object_keeps_existing_members() -> None:
    stored = updated(None, "upd", config(data={"k": "v"}))
    assert applied(stored, "m1", config(data={}))["data"] == {"k": "v"}


def test_nothing_left_of_a_map_that_someone_else_owns_is_null() -> None:
    stored = applied(None, "m1", config(spec={"m": [{"k": "a", "n": {"q": "r"}}]}))
    stored["metadata"]["managedFields"].append(
        {
            "manager": "upd",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:m": {'k:{"k":"a"}': {"f:n": {}}}}},
        }
    )
    stored = applied(stored, "m1", config(spec={"m": [{"k": "a"}]}), T1)
    assert stored["spec"]["m"] == [{"k": "a", "n": None}]


def test_status_is_applied_without_the_rest() -> None:
    stored = applied(None, "m1", config(spec={"x": 1}), reset=frozenset({"status"}))
    patch = config(spec={"x": 5}, status={"conditions": [{"type": "Ready"}]})
    stored = applied(
        stored, "ctl", patch, T1, subresource="status", reset=frozenset({"spec", "metadata.labels"})
    )
    entry = stored["metadata"]["managedFields"][1]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {
        "f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}}}}
    }


def test_applier_keeps_its_entry_across_versions() -> None:
    stored = applied(None, "m1", config(data={"k": "v"}))
    patch = {**config(data={"k": "w"}), "apiVersion": "v2"}
    new = apply(live=stored, patch=patch, node=NODE, manager="m1", api_version="v2", now=T1)
    assert [e["apiVersion"] for e in new["metadata"]["managedFields"]] == ["v2"]


def test_managers_of_versions_that_are_gone_do_not_conflict() -> None:
    stored = applied(None, "old", config(data={"k": "v"}))
    stored["metadata"]["managedFields"][0]["apiVersion"] = "v1alpha1"
    new = applied(stored, "m1", config(data={"k": "w"}), nodes={"v1": NODE})
    assert owned(new) == {"m1": {"f:data": {"f:k": {}}}}


def test_duplicates_in_the_live_object_are_replaced() -> None:
    live = config(metadata={"uid": "u"}, spec={"m": [{"k": "a", "v": 1}, {"k": "a", "v": 2}]})
    stored = applied(live, "m1", config(spec={"m": [{"k": "a", "v": 3}]}), force=True)
    assert stored["spec"]["m"] == [{"k": "a", "v": 3}]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(
            config(nonsense=1), ".nonsense: field not declared in schema", id="unknown-member"
        ),
        pytest.param(
            config(spec={"y": 1}), ".spec.y: field not declared in schema", id="nested-unknown"
        ),
        pytest.param(
            config(metadata={"y": 1}),
            ".metadata.y: field not declared in schema",
            id="unknown-metadata",
        ),
        pytest.param(
            config(spec={"m": [{"k": "a"}, {"k": "a"}]}),
            '.spec.m: duplicate entries for key [k="a"]',
            id="duplicate-key",
        ),
        pytest.param(
            config(spec={"set": ["a", "a"]}),
            '.spec.set: duplicate entries for key [="a"]',
            id="duplicate-in-set",
        ),
        pytest.param(
            config(spec={"m": [{"v": 1}]}),
            ".spec.m: element 0: associative list with keys has an element that omits all key"
            ' fields ["k"] (and doesn\'t have default values for any key fields)',
            id="no-key",
        ),
        pytest.param(
            config(spec={"m": [None]}),
            ".spec.m: element 0: associative list with keys may not have a null element",
            id="null-item",
        ),
        pytest.param(
            config(spec={"m": [1]}),
            ".spec.m: element 0: associative list with keys may not have non-map elements",
            id="scalar-item",
        ),
        pytest.param(
            config(spec={"set": [{}]}),
            ".spec.set: element 0: associative list without keys has an element that's a map type",
            id="object-in-set",
        ),
        pytest.param(
            config(spec={"set": [[]]}),
            ".spec.set: element 0: not supported: associative list with lists as elements",
            id="list-in-set",
        ),
        pytest.param(
            config(spec={"set": [None]}),
            ".spec.set: element 0: associative list without keys has an element"
            " that's an explicit null",
            id="null-in-set",
        ),
        pytest.param(
            config(spec={"x": "t"}),
            ".spec.x: expected numeric (int or float), got string",
            id="number",
        ),
        pytest.param(
            config(spec={"x": True}),
            ".spec.x: expected numeric (int or float), got bool",
            id="true-is-no-number",
        ),
        pytest.param(
            config(spec={"x": {}}),
            ".spec.x: expected numeric (int or float), got map[string]interface {}",
            id="object-as-number",
        ),
        pytest.param(
            config(spec={"t": 1}),
            ".spec.t: expected string, got &value.valueUnstructured{Value:1}",
            id="text",
        ),
        pytest.param(config(spec={"b": 1}), ".spec.b: expected boolean, got &{1}", id="boolean"),
        pytest.param(
            config(spec={"m": {}}), ".spec.m: expected list, got &{map[]}", id="object-as-list"
        ),
        pytest.param(config(spec=[1]), ".spec: expected map, got &{[1]}", id="list-as-object"),
        pytest.param(
            config(spec={"atomic": [1, "x"]}),
            ".spec.atomic[1]: expected numeric (int or float), got string",
            id="in-a-list",
        ),
        pytest.param(
            config(spec={"m": [{"k": "a", "v": "x"}]}),
            '.spec.m[k="a"].v: expected numeric (int or float), got string',
            id="in-an-item",
        ),
        pytest.param(
            config(spec={"x": "t", "b": 1}),
            "errors:\n  .spec.x: expected numeric (int or float), got string"
            "\n  .spec.b: expected boolean, got &{1}",
            id="several",
        ),
    ],
)
def test_configuration_that_does_not_fit_the_schema_is_500(patch: Object, message: str) -> None:
    with pytest.raises(errors.ApiError) as e:
        applied(None, "m", patch)
    assert e.value.message == f"failed to create typed patch object (/a; /v1, Kind=K): {message}"
    assert (e.value.code, e.value.reason) == (500, "")


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param({"metadata": {"name": "a"}}, "invalid object type: /, Kind=", id="no-type"),
        pytest.param({**config(), "kind": "L"}, "invalid object type: /v1, Kind=L", id="kind"),
        pytest.param(
            {**config(), "apiVersion": "g/v1"}, "invalid object type: g/v1, Kind=K", id="group"
        ),
        pytest.param(
            config(metadata={"managedFields": []}),
            "metadata.managedFields must be nil",
            id="managed-fields",
        ),
        pytest.param(
            [],
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot"
            " unmarshal array"
            " into Go value of type map[string]interface {}",
            id="list",
        ),
    ],
)
def test_configuration_of_another_type_is_400(patch: Any, message: str) -> None:
    with pytest.raises(errors.BadRequest) as e:
        applied(None, "m", patch, kind="K")
    assert e.value.message == message


def test_stored_object_that_cannot_be_merged_is_500() -> None:
    live = config(metadata={"uid": "u"}, spec={"m": [1], "set": ["a", "a"]})
    with pytest.raises(errors.ApiError) as e:
        applied(live, "m", config(spec={"m": [{"k": "a"}]}))
    assert e.value.message == (
        "failed to create typed live object (/a; /v1, Kind=K): .spec.m: element 0:"
        " associative list with keys may not have non-map elements"
    )


def test_null_managed_fields_are_allowed() -> None:
    assert owned(applied(None, "m", config(metadata={"managedFields": None}, data={"k": "v"})))


def test_deep_configuration_is_rejected() -> None:
    deep: Object = {}
    for _ in range(5000):
        deep = {"a": deep}
    patch = config(spec={"free": deep})
    with pytest.raises(errors.BadRequest, match="nested too deeply"):
        apply(live=None, patch=patch, node=NODE, manager="m", api_version="v1", now=T0)


def last_applied(**members: Any) -> Object:
    text = '{"apiVersion":"v1","kind":"K","metadata":{"name":"a"},"data":{"k":"v"}}'
    return config(metadata={"annotations": {names.LAST_APPLIED: text}}, **members)


def test_kubectl_takes_over_fields_of_client_side_apply() -> None:
    live = updated(None, "kubectl-client-side-apply", last_applied(data={"k": "v"}))
    conflict(live, "other", config(data={"k": "w"}))
    stored = applied(live, "kubectl", config(data={"k": "<w>"}), T1)
    assert stored["data"] == {"k": "<w>"}
    assert stored["metadata"]["annotations"][names.LAST_APPLIED] == (
        '{"apiVersion":"v1","data":{"k":"\\u003cw\\u003e"},"kind":"K","metadata":{"name":"a"}}\n'
    )


def test_kubectl_does_not_take_over_fields_changed_since_client_side_apply() -> None:
    live = updated(None, "kubectl-client-side-apply", last_applied(data={"k": "v", "l": "w"}))
    live = updated(live, "other", last_applied(data={"k": "2", "l": "w"}), T1)
    error = conflict(live, "kubectl", config(data={"k": "3"}))
    assert error.message.endswith('conflict with "other" using v1: .data.k')
    conflict(live, "kubectl", config(data={"l": "3"}))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"apiVersion":"v2"}', '{"apiVersion":"v1","nonsense":1}']
)
def test_useless_annotation_allows_no_conflict(text: str) -> None:
    live = config(metadata={"uid": "u", "annotations": {names.LAST_APPLIED: text}}, data={"k": "v"})
    conflict(live, "kubectl", config(data={"k": "3"}))


def test_annotation_that_would_be_too_large_is_dropped() -> None:
    live = config(metadata={"uid": "u", "annotations": {names.LAST_APPLIED: "{}"}})
    patch = config(metadata={"annotations": {"x": "y"}}, spec={"t": "x" * 300_000})
    stored = applied(live, "kubectl", patch)
    assert stored["metadata"]["annotations"] == {"x": "y"}
