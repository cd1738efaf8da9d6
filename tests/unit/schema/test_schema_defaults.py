# SPDX-License-Identifier: Apache-2.0
"""Defaulting of custom resources."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.schema.defaults import apply_defaults
from rdd.schema.node import Node, compile_node

TEXT = {"type": "string"}


def compiled(**properties: Any) -> Node:
    return compile_node({"type": "object", "properties": properties})


@pytest.mark.parametrize(
    ("properties", "obj", "expected"),
    [
        pytest.param(
            {"a": {"type": "integer", "default": 5}}, {}, {"a": 5}, id="a missing member"
        ),
        pytest.param(
            {"a": {"type": "integer", "default": 5}}, {"a": 0}, {"a": 0}, id="zero is a value"
        ),
        pytest.param(
            {"a": {"type": "boolean", "default": False}}, {}, {"a": False}, id="false is a default"
        ),
        pytest.param(
            {"o": {"type": "object", "default": {}, "properties": {"p": {**TEXT, "default": "q"}}}},
            {},
            {"o": {"p": "q"}},
            id="inside of a default",
        ),
        pytest.param(
            {"o": {"type": "object", "properties": {"p": {**TEXT, "default": "q"}}}},
            {},
            {},
            id="not inside of a missing object",
        ),
        pytest.param(
            {"l": {"type": "array", "items": {
                "type": "object", "properties": {"d": {"type": "boolean", "default": True}}}}},
            {"l": [{}, {"d": False}, 3]},
            {"l": [{"d": True}, {"d": False}, 3]},
            id="in list items",
        ),
        pytest.param(
            {"m": {"type": "object", "additionalProperties": {
                "type": "object", "properties": {"d": {"type": "integer", "default": 1}}}}},
            {"m": {"x": {}, "y": {"d": 2}}},
            {"m": {"x": {"d": 1}, "y": {"d": 2}}},
            id="in values of maps",
        ),
        pytest.param(
            {"l": {"type": "array", "items": {"type": "array", "items": {
                "type": "object", "properties": {"d": {"type": "integer", "default": 1}}}}}},
            {"l": [[{}]]},
            {"l": [[{"d": 1}]]},
            id="in nested lists",
        ),
        pytest.param({"b": TEXT}, {"b": None}, {}, id="a null without default goes"),
        pytest.param(
            {"e": {**TEXT, "default": "d"}}, {"e": None}, {"e": "d"}, id="a null is defaulted"
        ),
        pytest.param(
            {"a": {**TEXT, "nullable": True}}, {"a": None}, {"a": None}, id="a nullable null stays"
        ),
        pytest.param(
            {"c": {**TEXT, "nullable": True, "default": "d"}},
            {"c": None},
            {"c": None},
            id="a nullable null is not defaulted",
        ),
        pytest.param(
            {"c": {**TEXT, "nullable": True, "default": None}}, {}, {}, id="null is no default"
        ),
        pytest.param(
            {"m": {"type": "object", "additionalProperties": TEXT}},
            {"m": {"x": None, "y": "z"}},
            {"m": {"y": "z"}},
            id="nulls in maps",
        ),
        pytest.param(
            {"l": {"type": "array", "items": TEXT}},
            {"l": [None]},
            {"l": [None]},
            id="nulls in lists stay (validation refuses them)",
        ),
        pytest.param(
            {"l": {"type": "array", "items": {**TEXT, "default": "d"}}},
            {"l": [None, "x"]},
            {"l": ["d", "x"]},
            id="nulls in lists with a default for items",
        ),
        pytest.param(
            {"any": {"x-kubernetes-preserve-unknown-fields": True}},
            {"any": {"x": None}, "other": None},
            {"any": {"x": None}, "other": None},
            id="nulls without a schema stay",
        ),
    ],
)  # fmt: skip
def test_defaults_fill_in_missing_fields(
    properties: dict[str, Any], obj: dict[str, Any], expected: dict[str, Any]
) -> None:
    apply_defaults(compiled(**properties), obj)
    assert obj == expected


DEFAULTS = st.recursive(
    st.integers(0, 2) | st.booleans() | st.sampled_from(["a", ""]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=5,
)
SCHEMAS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.builds(lambda d: {"default": d, "type": "object"}, DEFAULTS) | st.just({"type": "string"}),
    lambda inner: (
        st.builds(lambda i: {"type": "array", "items": i}, inner)
        | st.builds(lambda a: {"type": "object", "additionalProperties": a}, inner)
        | st.builds(
            lambda p, d: {"type": "object", "properties": p, "default": d},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            DEFAULTS,
        )
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.none() | st.integers(0, 1),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=8,
)


def containers(value: Any) -> list[int]:
    found = [id(value)] if isinstance(value, dict | list) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [i for item in inner for i in containers(item)]


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, VALUES)
def test_defaulting_twice_is_defaulting_once(schema: dict[str, Any], value: Any) -> None:
    node = compile_node(schema)
    apply_defaults(node, value)
    once = copy.deepcopy(value)
    apply_defaults(node, value)
    assert value == once


@settings(max_examples=100, deadline=None)
@given(SCHEMAS, VALUES)
def test_defaults_are_never_shared(schema: dict[str, Any], value: Any) -> None:
    before = copy.deepcopy(schema)
    node = compile_node(schema)
    first, second = copy.deepcopy(value), copy.deepcopy(value)
    apply_defaults(node, first)
    apply_defaults(node, second)
    every = containers(first) + containers(second) + containers(schema)
    assert len(containers(first)) == len(set(containers(first)))
    assert not set(containers(first)) & set(containers(second))
    assert not set(containers(first)) & set(containers(schema))
    assert schema == before
    assert every is not None
