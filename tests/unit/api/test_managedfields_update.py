# SPDX-License-Identifier: Apache-2.0
"""Ownership after creates, updates and patches."""

import copy
from typing import Any

import pytest

from rdd.api import errors, managedfields
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
                    "x": {"type": "string"},
                    "list": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                    },
                },
            },
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
)


def obj(**members: Any) -> dict[str, Any]:
    meta = members.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "K", "metadata": {"name": "a", **meta}, **members}


def write(
    live: dict[str, Any] | None,
    new: dict[str, Any],
    manager: str = "m",
    now: str = T0,
    **kwargs: Any,
) -> dict[str, Any]:
    """The object as it is stored after a write; the stored one must not change."""
    before = copy.deepcopy(live)
    new = copy.deepcopy(new)
    options = {"node": NODE, "api_version": "v1", **kwargs}
    managedfields.update(live=live, new=new, manager=manager, now=now, **options)
    assert live == before
    new["metadata"]["uid"] = "u"
    return new


def owned(stored: dict[str, Any]) -> dict[str, Any]:
    return {e["manager"]: e["fieldsV1"] for e in stored["metadata"].get("managedFields", [])}


def test_creator_owns_everything_but_identity() -> None:
    stored = write(
        None,
        obj(
            metadata={
                "namespace": "n",
                "generateName": "g",
                "labels": {"l": "1"},
                "generation": 1,
                "creationTimestamp": T0,
                "resourceVersion": "1",
                "finalizers": ["f"],
                "ownerReferences": [{"uid": "u", "name": "o"}],
            },
            data={"k": "v"},
        ),
    )
    assert stored["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": T0,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:k": {}},
                "f:metadata": {
                    "f:generateName": {},
                    "f:labels": {".": {}, "f:l": {}},
                    "f:finalizers": {".": {}, 'v:"f"': {}},
                    "f:ownerReferences": {".": {}, 'k:{"uid":"u"}': {}},
                },
            },
        }
    ]
    assert list(stored["metadata"]["managedFields"][0]) == [
        "manager",
        "operation",
        "apiVersion",
        "time",
        "fieldsType",
        "fieldsV1",
    ]


def test_creator_of_nothing_has_no_entry() -> None:
    assert "managedFields" not in write(None, obj())["metadata"]


def test_members_that_new_objects_have_anyway_are_not_owned() -> None:
    node = compile_node(
        {
            "type": "object",
            "required": ["rules"],
            "properties": {
                "metadata": {"type": "object", "default": {}},
                "spec": {
                    "type": "object",
                    "default": {},
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "default": ""},
                        "x": {"type": "string"},
                    },
                },
                "pointer": {"type": "object", "properties": {"y": {"type": "string"}}},
                "rules": {"type": "array", "items": {"type": "string"}},
            },
        }
    )
    empty = {"metadata": {}, "spec": {"name": ""}, "rules": None}
    new = obj(spec={"name": "", "x": "1"}, pointer={"y": "1"}, rules=None)
    stored = write(None, new, node=node, empty=empty)
    assert owned(stored) == {"m": {"f:spec": {"f:x": {}}, "f:pointer": {".": {}, "f:y": {}}}}


def test_update_takes_ownership_of_changed_fields_only() -> None:
    stored = write(None, obj(data={"k": "v", "l": "w"}), "one")
    stored = write(stored, obj(data={"k": "2", "l": "w", "n": "x"}), "two", T1)
    assert owned(stored) == {
        "one": {"f:data": {".": {}, "f:l": {}}},
        "two": {"f:data": {"f:k": {}, "f:n": {}}},
    }


def test_update_that_removes_takes_ownership_from_everyone_and_gains_none() -> None:
    stored = write(None, obj(data={"k": "v", "l": "w"}), "one")
    stored = write(stored, obj(data={"l": "w"}), "two", T1)
    assert owned(stored) == {"one": {"f:data": {".": {}, "f:l": {}}}}
    assert stored["metadata"]["managedFields"][0]["time"] == T0
    stored = write(stored, obj(), "two", T1)
    assert owned(stored) == {}


def test_manager_adds_to_its_own_entry_and_gets_a_new_time() -> None:
    stored = write(None, obj(data={"k": "v"}))
    stored = write(stored, obj(data={"k": "v", "l": "w"}), now=T1)
    assert owned(stored) == {"m": {"f:data": {".": {}, "f:k": {}, "f:l": {}}}}
    assert [e["time"] for e in stored["metadata"]["managedFields"]] == [T1]


def test_removing_own_fields_keeps_the_time() -> None:
    stored = write(None, obj(data={"k": "v", "l": "w"}))
    stored = write(stored, obj(data={"k": "v"}), now=T1)
    assert owned(stored) == {"m": {"f:data": {".": {}, "f:k": {}}}}
    assert stored["metadata"]["managedFields"][0]["time"] == T0


def test_write_without_changes_keeps_the_list() -> None:
    stored = write(None, obj(data={"k": "v"}))
    new = obj(data={"k": "v"})
    managedfields.update(live=stored, new=new, node=NODE, manager="x", api_version="v1", now=T1)
    assert new["metadata"]["managedFields"] is stored["metadata"]["managedFields"]


def test_metadata_shared_with_the_stored_object_is_copied() -> None:
    stored = write(None, obj(data={"k": "v"}))
    before = copy.deepcopy(stored)
    new = {**stored, "data": {"k": "w"}}
    managedfields.update(live=stored, new=new, node=NODE, manager="x", api_version="v1", now=T1)
    assert stored == before
    assert new["metadata"] is not stored["metadata"]


def test_versions_and_subresources_are_different_entries() -> None:
    stored = write(None, obj(data={"k": "v"}))
    stored = write(stored, obj(data={"k": "v", "l": "w"}), now=T1, api_version="v2")
    stored = write(
        stored, obj(data={"k": "v", "l": "w"}, status={"phase": "x"}), now=T2, subresource="status"
    )
    entries = stored["metadata"]["managedFields"]
    assert [(e["apiVersion"], e.get("subresource")) for e in entries] == [
        ("v1", None),
        ("v2", None),
        ("v1", "status"),
    ]


def test_fields_reset_by_the_endpoint_are_ignored() -> None:
    stored = write(None, obj(spec={"x": "1"}, status={"phase": "a"}), reset=frozenset({"status"}))
    assert owned(stored) == {"m": {"f:spec": {".": {}, "f:x": {}}}}
    main = write(stored, obj(spec={"x": "1"}), "x", reset=frozenset({"status"}))
    assert main["metadata"]["managedFields"] == stored["metadata"]["managedFields"]
    new = obj(
        metadata={"labels": {"a": "b"}, "finalizers": ["f"]}, spec={"x": "2"}, status={"phase": "b"}
    )
    reset = frozenset({"spec", "metadata.finalizers"})
    status = write(stored, new, "ctl", subresource="status", reset=reset)
    assert owned(status)["ctl"] == {
        "f:status": {"f:phase": {}},
        "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
    }
    whole = write(stored, new, "ctl", subresource="status", reset=frozenset({"spec", "metadata"}))
    assert owned(whole)["ctl"] == {"f:status": {"f:phase": {}}}


@pytest.mark.parametrize("sent", [[], [{}], [{"manager": "", "fieldsV1": None}]])
def test_blank_list_gives_up_tracking(sent: Any) -> None:
    stored = write(None, obj(data={"k": "v"}))
    stored = write(stored, obj(metadata={"managedFields": sent}, data={"k": "w"}), "x")
    assert "managedFields" not in stored["metadata"]
    stored = write(stored, obj(data={"k": "z"}), "x")
    assert "managedFields" not in stored["metadata"]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(None, id="null"),
        pytest.param("x", id="not-a-list"),
        pytest.param([1], id="not-an-entry"),
        pytest.param([{"operation": "Frob"}], id="operation"),
        pytest.param([{"operation": "Apply"}], id="no-version"),
        pytest.param([{"operation": "Apply", "apiVersion": "v1"}], id="no-type"),
        pytest.param([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}], id="type"),
        pytest.param(
            [
                {
                    "operation": "Apply",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"x": 1},
                }
            ],
            id="fields",
        ),
        pytest.param(
            [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "now"}],
            id="time",
        ),
        pytest.param(
            [{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "manager": 1}],
            id="manager",
        ),
    ],
)
def test_nonsense_from_clients_leaves_the_stored_list(sent: Any) -> None:
    stored = write(None, obj(data={"k": "v"}))
    after = write(stored, obj(metadata={"managedFields": sent}, data={"k": "v"}), "x")
    assert after["metadata"]["managedFields"] == stored["metadata"]["managedFields"]


def test_list_from_a_client_replaces_the_stored_one() -> None:
    entry = {
        "manager": "mine",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "2024-01-01T01:00:00+01:00",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {".": {}, "f:k": {".": {}}}, "q:new": {}},
        "subresource": "",
    }
    stored = write(None, obj(data={"k": "v"}))
    new = obj(
        metadata={"managedFields": [{**entry, "manager": "none", "fieldsV1": {}}, entry]},
        data={"k": "v"},
    )
    after = write(stored, new, "x")
    assert after["metadata"]["managedFields"] == [
        {
            "manager": "mine",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": T0,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}},
        }
    ]
    ignored = write(stored, new, "x", subresource="status")
    assert ignored["metadata"]["managedFields"] == stored["metadata"]["managedFields"]


def test_oldest_updaters_are_merged_when_there_are_more_than_ten() -> None:
    stored = write(None, obj(data={"k0": "v"}), "m00", "2024-01-01T00:00:00Z")
    for i in range(1, 13):
        data = {f"k{n}": "v" for n in range(i + 1)}
        stored = write(stored, obj(data=data), f"m{i:02}", f"2024-01-01T00:00:{i:02}Z")
    entries = stored["metadata"]["managedFields"]
    assert [e["manager"] for e in entries] == [
        "ancient-changes",
        *(f"m{i:02}" for i in range(4, 13)),
    ]
    assert entries[0]["fieldsV1"] == {"f:data": {".": {}, **{f"f:k{i}": {} for i in range(4)}}}
    assert entries[0]["time"] == "2024-01-01T00:00:03Z"


def test_updaters_of_different_versions_have_their_own_bucket() -> None:
    stored = write(None, obj(data={"k0": "v"}), "m00", api_version="v1")
    for i in range(1, 14):
        data = {f"k{n}": "v" for n in range(i + 1)}
        now = f"2024-01-01T00:00:{i:02}Z"
        stored = write(stored, obj(data=data), f"m{i:02}", now, api_version=f"v{i % 2 + 1}")
    buckets = [e for e in stored["metadata"]["managedFields"] if e["manager"] == "ancient-changes"]
    assert sorted(e["apiVersion"] for e in buckets) == ["v1", "v2"]
    assert len(stored["metadata"]["managedFields"]) == 10


def test_entries_of_versions_that_are_gone_are_dropped() -> None:
    stored = write(None, obj(data={"k": "v"}), "old", api_version="v1alpha1")
    same = write(stored, obj(data={"k": "v", "l": "w"}), "new", T1)
    assert set(owned(same)) == {"old", "new"}
    gone = write(stored, obj(data={"k": "v", "l": "w"}), "new", T1, nodes={"v1": NODE})
    assert set(owned(gone)) == {"new"}


def test_entries_are_compared_in_their_own_version() -> None:
    atomic = compile_node(
        {"type": "object", "properties": {"data": {**STRINGS, "x-kubernetes-map-type": "atomic"}}}
    )
    stored = write(None, obj(data={"k": "v"}), "old", api_version="v1alpha1", node=atomic)
    nodes = {"v1": NODE, "v1alpha1": atomic}
    stored = write(stored, obj(data={"k": "v", "l": "w"}), "new", T1, nodes=nodes)
    assert owned(stored) == {"new": {"f:data": {"f:l": {}}}}


def test_entries_follow_a_schema_that_made_a_map_atomic() -> None:
    atomic = compile_node(
        {"type": "object", "properties": {"data": {**STRINGS, "x-kubernetes-map-type": "atomic"}}}
    )
    stored = write(None, obj(data={"k": "v"}), "one")
    stored = write(stored, obj(data={"k": "w"}), "two", T1, node=atomic)
    assert owned(stored) == {"two": {"f:data": {}}}


def test_object_that_breaks_its_shape_keeps_the_stored_list() -> None:
    stored = write(None, obj(spec={"list": [{"k": "a"}]}))
    after = write(stored, obj(spec={"list": [1]}), "x")
    assert after["metadata"]["managedFields"] == stored["metadata"]["managedFields"]


def test_deep_object_is_rejected() -> None:
    node = compile_node({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(errors.BadRequest, match="nested too deeply"):
        managedfields.update(
            live=None, new=obj(spec=deep), node=node, manager="m", api_version="v1", now=T0
        )


def test_times_are_restored_when_nothing_else_differs() -> None:
    stored = write(None, obj(data={"k": "v"}))
    later = copy.deepcopy(stored)
    later["metadata"]["managedFields"][0]["time"] = T1
    same = copy.deepcopy(later)
    managedfields.restore_times(stored, same)
    assert same == stored
    other = copy.deepcopy(later)
    other["data"]["k"] = "w"
    managedfields.restore_times(stored, other)
    assert other["metadata"]["managedFields"][0]["time"] == T1
    other = copy.deepcopy(later)
    other["metadata"]["managedFields"][0]["manager"] = "x"
    managedfields.restore_times(stored, other)
    assert other["metadata"]["managedFields"][0]["time"] == T1
    managedfields.restore_times(obj(), obj())


@pytest.mark.parametrize(
    ("query", "agent", "expected"),
    [
        pytest.param("given", "kubectl/v1", "given", id="parameter"),
        pytest.param("", "kubectl/v1.36 (linux)", "kubectl", id="user-agent"),
        pytest.param("", "plain", "plain", id="no-slash"),
        pytest.param("", "", "", id="nothing"),
        pytest.param("", "a\tb\x00c/1", "abc", id="unprintable-characters-go"),
        pytest.param("", "ü" * 100, "ü" * 64, id="cut-at-128-bytes"),
    ],
)
def test_manager_is_the_parameter_or_the_user_agent(query: str, agent: str, expected: str) -> None:
    assert managedfields.manager_from(query, agent) == expected


def test_manager_without_a_name_is_unknown() -> None:
    assert set(owned(write(None, obj(data={"k": "v"}), ""))) == {"unknown"}


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        pytest.param("ünï", [], id="fine"),
        pytest.param("m" * 128, [], id="longest"),
        pytest.param("m" * 129, ["Too long: may not be more than 128 bytes"], id="too-long"),
        pytest.param(
            "a\tb", ['Invalid value: "a\\tb": invalid character U+0009 (at position 1)'], id="tab"
        ),
        pytest.param(
            "ü\x01",
            ['Invalid value: "ü\\x01": invalid character U+0001 (at position 2)'],
            id="byte-position",
        ),
    ],
)
def test_field_manager_parameter_is_checked(value: str, texts: list[str]) -> None:
    found = managedfields.manager_errors(value)
    assert [e.body for e in found] == texts
    assert all(e.field == "fieldManager" for e in found)
