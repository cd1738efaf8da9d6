# SPDX-License-Identifier: Apache-2.0
"""Field sets: the algebra on FieldsV1, and how shapes turn values into sets."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import fieldset, typedvalues
from rdd.api.shapes import ItemError, item_key, shape_of
from rdd.schema.node import compile_node

elements = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
sets = st.recursive(
    st.just({}),
    lambda inner: st.dictionaries(elements, inner, max_size=3).flatmap(
        lambda d: st.sampled_from([d, {".": {}, **d}] if d else [{}])
    ),
    max_leaves=8,
).map(lambda d: {k: v for k, v in d.items() if k != "."})

Path = tuple[str, ...]


def members(fields: Any, prefix: Path = ()) -> set[Path]:
    """The set spelled out as paths, independently of the implementation."""
    found = set()
    for key, below in fields.items():
        if key == ".":
            continue
        if not below or "." in below:
            found.add((*prefix, key))
        found |= members(below, (*prefix, key))
    return found


def is_canonical(fields: Any, *, root: bool = True) -> bool:
    if not root and set(fields) == {"."}:
        return False
    return all(is_canonical(v, root=False) for k, v in fields.items() if k != ".")


@settings(max_examples=200, deadline=None)
@given(sets, sets)
def test_operations_are_those_of_sets_of_paths(a: Any, b: Any) -> None:
    before = copy.deepcopy((a, b))
    for operation, expected in (
        (fieldset.union, members(a) | members(b)),
        (fieldset.difference, members(a) - members(b)),
        (fieldset.intersection, members(a) & members(b)),
    ):
        result = operation(a, b)
        assert members(result) == expected
        assert is_canonical(result)
    assert (a, b) == before
    assert set(fieldset.paths(a)) == {
        "".join(map(fieldset.element_text, path)) for path in members(a)
    }


@settings(max_examples=100, deadline=None)
@given(sets)
def test_operations_that_change_nothing_return_their_operand(fields: Any) -> None:
    assert fieldset.union(fields, copy.deepcopy(fields)) is fields
    assert fieldset.union(fields, {}) is fields
    assert fieldset.difference(fields, {"f:zz": {}}) is fields
    assert fieldset.difference(fields, fields) == {}
    assert fieldset.decode(fields) == fields


def test_paths_are_shown_in_the_order_of_structured_merge_diff() -> None:
    fields = {
        "f:b": {"f:x": {}},
        "f:a": {},
        "f:l": {
            'k:{"port":10,"proto":"TCP"}': {".": {}, "f:port": {}},
            'k:{"port":9,"proto":"TCP"}': {},
            "v:true": {},
            'v:"s"': {},
            "v:2": {},
            "i:3": {},
        },
    }
    assert list(fieldset.paths(fields)) == [
        ".a",
        ".b.x",
        '.l[port=9,proto="TCP"]',
        '.l[port=10,proto="TCP"]',
        ".l[=2]",
        '.l[="s"]',
        ".l[=true]",
        ".l[3]",
        '.l[port=10,proto="TCP"].port',
    ]


@pytest.mark.parametrize(
    ("given_fields", "expected"),
    [
        pytest.param(None, {}, id="null"),
        pytest.param({"f:a": {".": {}}}, {"f:a": {}}, id="only-itself"),
        pytest.param({"x:a": {}, "f:b": {}}, {"f:b": {}}, id="unknown-kind-is-dropped"),
        pytest.param({'k:{"b": 1, "a": "<"}': {}}, {'k:{"a":"\\u003c","b":1}': {}}, id="key"),
        pytest.param({'v: "x"': {}}, {'v:"x"': {}}, id="value"),
        pytest.param({".": {}, "f:a": {}}, {"f:a": {}}, id="root-is-never-owned"),
    ],
)
def test_fields_from_clients_are_made_canonical(given_fields: Any, expected: Any) -> None:
    assert fieldset.decode(given_fields) == expected


@pytest.mark.parametrize(
    "bad",
    [1, {"f:a": 1}, {"fa": {}}, {"f": {}}, {"k:[]": {}}, {"k:{": {}}, {"i:x": {}}, {"i:true": {}}],
)
def test_nonsense_is_not_taken_for_fields(bad: Any) -> None:
    with pytest.raises(fieldset.BadFields):
        fieldset.decode(bad)


def test_deeply_nested_fields_are_rejected() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"f:a": deep}
    with pytest.raises(fieldset.BadFields):
        fieldset.decode(deep)


SHAPE = shape_of(
    compile_node(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {
                        "n": {"type": "integer"},
                        "plain": {"type": "array", "items": {"type": "string"}},
                        "set": {
                            "type": "array",
                            "items": {"type": "string"},
                            "x-kubernetes-list-type": "set",
                        },
                        "ports": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["port", "protocol"],
                            "items": {
                                "type": "object",
                                "properties": {
                                    "port": {"type": "integer"},
                                    "protocol": {"type": "string", "default": "TCP"},
                                    "x": {"type": "string"},
                                },
                            },
                        },
                        "granular": {
                            "type": "object",
                            "additionalProperties": {
                                "type": "object",
                                "properties": {"v": {"type": "string"}},
                            },
                        },
                        "atomic": {
                            "type": "object",
                            "x-kubernetes-map-type": "atomic",
                            "properties": {"v": {"type": "string"}},
                        },
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        "either": {"x-kubernetes-int-or-string": True},
                        "embedded": {
                            "type": "object",
                            "x-kubernetes-embedded-resource": True,
                            "x-kubernetes-preserve-unknown-fields": True,
                        },
                        "byPatch": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"name": {"type": "string"}},
                            },
                            "x-kubernetes-patch-strategy": "merge",
                            "x-kubernetes-patch-merge-key": "name",
                        },
                    },
                }
            },
        }
    )
)


@pytest.mark.parametrize(
    ("spec", "claimed", "everything"),
    [
        pytest.param({"n": 1}, {"f:n": {}}, {".": {}, "f:n": {}}, id="scalar"),
        pytest.param({"n": None}, {"f:n": {}}, {".": {}, "f:n": {}}, id="null"),
        pytest.param({"plain": [1]}, {"f:plain": {}}, {".": {}, "f:plain": {}}, id="atomic-list"),
        pytest.param({"set": []}, None, {".": {}, "f:set": {}}, id="empty-set"),
        pytest.param(
            {"granular": {}}, {"f:granular": {}}, {".": {}, "f:granular": {}}, id="empty-map"
        ),
        pytest.param(
            {"set": ["b", "a"]},
            {"f:set": {'v:"a"': {}, 'v:"b"': {}}},
            {".": {}, "f:set": {".": {}, 'v:"a"': {}, 'v:"b"': {}}},
            id="set",
        ),
        pytest.param(
            {"set": ["a", "a"]},
            {"f:set": {'v:"a"': {}}},
            {".": {}, "f:set": {".": {}, 'v:"a"': {}}},
            id="twice-in-a-set",
        ),
        pytest.param(
            {"ports": [{"port": 1, "x": "y"}]},
            {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:x": {}}}},
            {
                ".": {},
                "f:ports": {
                    ".": {},
                    'k:{"port":1,"protocol":"TCP"}': {".": {}, "f:port": {}, "f:x": {}},
                },
            },
            id="list-map-with-default-key",
        ),
        pytest.param(
            {"granular": {"a": {"v": "1"}}},
            {"f:granular": {"f:a": {".": {}, "f:v": {}}}},
            {".": {}, "f:granular": {".": {}, "f:a": {".": {}, "f:v": {}}}},
            id="map-entries-are-claimed-themselves",
        ),
        pytest.param(
            {"atomic": {"v": "1"}}, {"f:atomic": {}}, {".": {}, "f:atomic": {}}, id="atomic-map"
        ),
        pytest.param(
            {"free": {"a": {"b": [1]}}},
            {"f:free": {"f:a": {".": {}, "f:b": {}}}},
            {".": {}, "f:free": {".": {}, "f:a": {".": {}, "f:b": {}}}},
            id="deduced",
        ),
        pytest.param(
            {"either": "1"}, {"f:either": {}}, {".": {}, "f:either": {}}, id="int-or-string"
        ),
        pytest.param(
            {"embedded": {"kind": "K", "metadata": {"labels": {"a": "b"}}}},
            {"f:embedded": {"f:kind": {}, "f:metadata": {"f:labels": {"f:a": {}}}}},
            {
                ".": {},
                "f:embedded": {
                    ".": {},
                    "f:kind": {},
                    "f:metadata": {".": {}, "f:labels": {".": {}, "f:a": {}}},
                },
            },
            id="embedded-resource",
        ),
        pytest.param(
            {"byPatch": [{"name": "a"}]},
            {"f:byPatch": {'k:{"name":"a"}': {".": {}, "f:name": {}}}},
            {".": {}, "f:byPatch": {".": {}, 'k:{"name":"a"}': {".": {}, "f:name": {}}}},
            id="list-type-from-patch-strategy",
        ),
    ],
)
def test_values_become_sets(spec: Any, claimed: Any, everything: Any) -> None:
    expected = None if claimed is None else {"f:spec": claimed}
    assert typedvalues.to_set(SHAPE, {"spec": spec}) == expected
    assert typedvalues.all_fields(SHAPE, {"spec": spec}) == {".": {}, "f:spec": everything}


@pytest.mark.parametrize(
    ("old", "new", "changed", "removed"),
    [
        pytest.param({"n": 1}, {"n": 2}, {"f:n": {}}, None, id="modified"),
        pytest.param({"n": 1}, {"n": None}, {"f:n": {}}, None, id="became-null"),
        pytest.param({"n": 1}, {"plain": []}, {"f:plain": {}}, {"f:n": {}}, id="one-for-another"),
        pytest.param(
            {"set": ["a", "b"]},
            {"set": ["b", "c"]},
            {"f:set": {'v:"c"': {}}},
            {"f:set": {'v:"a"': {}}},
            id="set",
        ),
        pytest.param({"set": ["a", "b"]}, {"set": ["b", "a"]}, None, None, id="order-of-a-set"),
        pytest.param(
            {"set": ["a"]},
            {"set": ["a", "a"]},
            {"f:set": {'v:"a"': {}}},
            {"f:set": {'v:"a"': {}}},
            id="now-twice",
        ),
        pytest.param(
            {"set": ["a", "a"]},
            {"set": ["a"]},
            {"f:set": {'v:"a"': {}}},
            {"f:set": {'v:"a"': {}}},
            id="now-once",
        ),
        pytest.param(
            {"set": ["a", "a"]},
            {"set": ["a", "a", "a"]},
            {"f:set": {'v:"a"': {}}},
            None,
            id="thrice",
        ),
        pytest.param(
            {"set": ["a", "a"]},
            {"set": ["b"]},
            {"f:set": {'v:"b"': {}}},
            {"f:set": {'v:"a"': {}}},
            id="twice-gone",
        ),
        pytest.param({"set": []}, {"set": None}, {"f:set": {}}, None, id="empty-list-became-null"),
        pytest.param(
            {"set": None}, {"set": ["a"]}, {"f:set": {'v:"a"': {}}}, None, id="null-became-list"
        ),
        pytest.param(
            {"granular": {"a": {"v": "1"}}},
            {"granular": {}},
            None,
            {"f:granular": {"f:a": {".": {}, "f:v": {}}}},
            id="emptied",
        ),
        pytest.param(
            {"granular": {}},
            {"granular": None},
            {"f:granular": {}},
            None,
            id="empty-map-became-null",
        ),
        pytest.param(
            {"atomic": {"v": "1"}}, {"atomic": {"v": "2"}}, {"f:atomic": {}}, None, id="atomic"
        ),
        pytest.param(
            {"free": {"a": {"b": 1}}},
            {"free": {"a": 1}},
            {"f:free": {"f:a": {}}},
            {"f:free": {"f:a": {"f:b": {}}}},
            id="object-became-scalar",
        ),
        pytest.param(
            {"free": {"a": 1}},
            {"free": {"a": {"b": 1}}},
            {"f:free": {"f:a": {".": {}, "f:b": {}}}},
            None,
            id="scalar-became-object",
        ),
        pytest.param(
            {"free": {"a": 1}},
            {"free": {"a": True}},
            {"f:free": {"f:a": {}}},
            None,
            id="true-is-not-1",
        ),
        pytest.param(
            {"ports": [{"port": 1, "x": "a"}]},
            {"ports": [{"port": 1, "protocol": "TCP"}]},
            {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:protocol": {}}}},
            {"f:ports": {'k:{"port":1,"protocol":"TCP"}': {"f:x": {}}}},
            id="same-item-by-default-key",
        ),
    ],
)
def test_differences_of_two_values(old: Any, new: Any, changed: Any, removed: Any) -> None:
    def below(fields: Any) -> Any:
        return None if fields is None else {"f:spec": fields}

    before = copy.deepcopy((old, new))
    found = typedvalues.compare_objects(SHAPE, {"spec": old}, {"spec": new})
    assert found == (below(changed), below(removed))
    assert (old, new) == before


@pytest.mark.parametrize(
    ("item", "message"),
    [
        pytest.param(None, "associative list with keys may not have a null element", id="null"),
        pytest.param(1, "associative list with keys may not have non-map elements", id="scalar"),
    ],
)
def test_items_without_keys_have_no_path(item: Any, message: str) -> None:
    ports = SHAPE.members["spec"][1].members["ports"][1]  # type: ignore[index]
    with pytest.raises(ItemError, match=message):
        item_key(ports, item)


def test_named_members_are_added_where_a_set_reaches_into_them() -> None:
    fields: dict[str, Any] = {
        "f:spec": {"f:granular": {"f:a": {"f:v": {}}}, "f:ports": {'k:{"port":1}': {"f:x": {}}}}
    }
    assert fieldset.with_named_members(fields, SHAPE) == {
        "f:spec": {
            ".": {},
            "f:granular": {".": {}, "f:a": {"f:v": {}}},
            "f:ports": {".": {}, 'k:{"port":1}': {"f:x": {}}},
        }
    }


def test_owner_of_a_part_owns_all_of_a_value_that_became_atomic() -> None:
    fields: dict[str, Any] = {
        "f:spec": {
            "f:atomic": {".": {}, "f:v": {}},
            "f:plain": {"i:0": {}},
            "f:free": {"f:a": {"f:b": {}}},
        }
    }
    assert fieldset.reconcile(fields, SHAPE) == {
        "f:spec": {"f:atomic": {}, "f:plain": {}, "f:free": {"f:a": {"f:b": {}}}}
    }
    fine: dict[str, Any] = {"f:spec": {"f:atomic": {}, "f:n": {}}}
    assert fieldset.reconcile(fine, SHAPE) is fine


def test_recursive_schemas_have_shapes() -> None:
    refs = {"T": {"type": "object", "properties": {"t": {"$ref": "#/T"}, "v": {"type": "string"}}}}
    shape = shape_of(
        compile_node({"type": "object", "properties": {"spec": {"$ref": "#/T"}}}, refs)
    )
    value = {"spec": {"t": {"t": {"v": "x"}}}}
    assert typedvalues.to_set(shape, value) == {"f:spec": {"f:t": {"f:t": {"f:v": {}}}}}
