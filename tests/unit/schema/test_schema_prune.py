# SPDX-License-Identifier: Apache-2.0
"""Pruning of custom resources."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.schema.node import compile_node
from rdd.schema.prune import integral_floats, is_pruned, prune

INTEGER = {"type": "integer"}
KEEP = {"x-kubernetes-preserve-unknown-fields": True}


def resource(**spec_properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": spec_properties}},
    }


@pytest.mark.parametrize(
    ("schema", "obj", "kept", "unknown"),
    [
        pytest.param(
            resource(x=INTEGER),
            {"spec": {"x": 1, "y": {"z": 2}}, "other": 1},
            {"spec": {"x": 1}},
            ["other", "spec.y"],
            id="undeclared members",
        ),
        pytest.param(
            resource(l={"type": "array", "items": {
                "type": "object", "properties": {"z": INTEGER}}}),
            {"spec": {"l": [{"z": 1, "y": 2}, {"y": 3}]}},
            {"spec": {"l": [{"z": 1}, {}]}},
            ["spec.l[0].y", "spec.l[1].y"],
            id="in list items",
        ),
        pytest.param(
            resource(k={"type": "object", **KEEP, "properties": {
                "in": {"type": "object", "properties": {"q": INTEGER}}}}),
            {"spec": {"k": {"free": {"deep": 1}, "in": {"q": 1, "r": 2}}}},
            {"spec": {"k": {"free": {"deep": 1}, "in": {"q": 1}}}},
            ["spec.k.in.r"],
            id="declared members of a preserving object",
        ),
        pytest.param(
            resource(any=KEEP),
            {"spec": {"any": [1, {"a": [{"b": "c"}]}]}},
            {"spec": {"any": [1, {"a": [{"b": "c"}]}]}},
            [],
            id="anything below a preserving value",
        ),
        pytest.param(
            resource(m={"type": "object", "additionalProperties": {
                "type": "object", "properties": {"d": INTEGER}}}),
            {"spec": {"m": {"any": {"d": 1, "e": 2}}}},
            {"spec": {"m": {"any": {"d": 1}}}},
            ["spec.m.any.e"],
            id="values of maps",
        ),
        pytest.param(
            resource(m={"type": "object", "additionalProperties": True}),
            {"spec": {"m": {"a": 1, "b": {"c": 1}}}},
            {"spec": {"m": {"a": 1, "b": {}}}},
            ["spec.m.b.c"],
            id="additionalProperties true keeps members without their insides",
        ),
        pytest.param(
            resource(l={"type": "array", **KEEP, "items": {
                "type": "object", "properties": {"o": {"type": "object"}}}}),
            {"spec": {"l": [{"x": 1, "o": {"p": 1}}]}},
            {"spec": {"l": [{"x": 1, "o": {}}]}},
            ["spec.l[0].o.p"],
            id="items of a preserving list keep their own surplus only",
        ),
        pytest.param(
            resource(e={"type": "object", **KEEP, "x-kubernetes-embedded-resource": True}),
            {"spec": {"e": {"kind": "P", "metadata": {"name": "x", "no": 1}, "spec": {"a": 1}}}},
            {"spec": {"e": {"kind": "P", "metadata": {"name": "x"}, "spec": {"a": 1}}}},
            ["spec.e.metadata.no"],
            id="metadata of an embedded resource",
        ),
        pytest.param(
            resource(e={"type": "object", **KEEP, "x-kubernetes-embedded-resource": True}),
            {"spec": {"e": {"metadata": {"no": 1}}, "z": 1}, "a": 1},
            {"spec": {"e": {"metadata": {}}}},
            ["a", "spec.z", "spec.e.metadata.no"],
            id="metadata of embedded resources is reported last",
        ),
        pytest.param(
            resource(e={"type": "object", "x-kubernetes-embedded-resource": True,
                        "properties": {"spec": {"type": "object"}}}),
            {"spec": {"e": {"apiVersion": "v1", "kind": "P", "spec": {}, "x": 1}}},
            {"spec": {"e": {"apiVersion": "v1", "kind": "P", "spec": {}}}},
            ["spec.e.x"],
            id="an embedded resource that declares its members",
        ),
    ],
)  # fmt: skip
def test_prune_drops_unknown_fields(
    schema: dict[str, Any], obj: dict[str, Any], kept: dict[str, Any], unknown: list[str]
) -> None:
    found: list[str] = ["before"]
    prune(compile_node(schema), obj, unknown=found)
    assert obj == kept
    assert found == ["before", *unknown]


def test_prune_leaves_type_and_metadata_of_the_root_alone() -> None:
    obj = {"apiVersion": "a/v1", "kind": "K", "metadata": {"odd": 1}, "spec": {}}
    prune(compile_node({"type": "object"}), obj, unknown=None)
    assert obj == {"apiVersion": "a/v1", "kind": "K", "metadata": {"odd": 1}}


def test_is_pruned_does_not_change_the_value() -> None:
    node = compile_node({"type": "object", "properties": {"b": INTEGER}})
    value = {"b": 1, "c": {"d": 1}}
    assert not is_pruned(node, value, is_resource=False)
    assert value == {"b": 1, "c": {"d": 1}}
    assert is_pruned(node, {"b": 1}, is_resource=False)


def test_integral_floats_become_integers_as_go_prints_them() -> None:
    value = {"a": 1000.0, "b": [1.0, 1.5, {"c": -2.0}], "d": 1e300, "e": True}
    assert integral_floats(value) == {"a": 1000, "b": [1, 1.5, {"c": -2}], "d": 1e300, "e": True}
    assert type(value["a"]) is int


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=12,
)
SCHEMAS = st.recursive(
    st.sampled_from([INTEGER, {"type": "string"}, KEEP, {"type": "object", **KEEP}]),
    lambda inner: (
        st.builds(lambda i: {"type": "array", "items": i}, inner)
        | st.builds(lambda i: {"type": "array", **KEEP, "items": i}, inner)
        | st.builds(lambda a: {"type": "object", "additionalProperties": a}, inner | st.booleans())
        | st.builds(
            lambda p: {"type": "object", "properties": p},
            st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
        )
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, JSON)
def test_pruning_twice_is_pruning_once(schema: dict[str, Any], value: Any) -> None:
    node = compile_node(schema)
    obj = {"a": value}
    prune(node, obj, unknown=None)
    once = copy.deepcopy(obj)
    found: list[str] = []
    prune(node, obj, unknown=found)
    assert obj == once
    assert found == []
