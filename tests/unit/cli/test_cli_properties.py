# SPDX-License-Identifier: Apache-2.0
"""PROPERTY=VALUE: forms, names, values, required fields, the table of the help text."""

from typing import Any

import pytest

from rdd.cli.commands.app.properties import (
    Schema,
    coerce,
    describe,
    find,
    parse_assignments,
    resolve,
    spec_schema,
    with_required,
)
from rdd.cli.framework.errors import CommandError
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of

SMALL: Schema = {
    "required": ["running", "level", "engine"],
    "properties": {
        "running": {"type": "boolean", "description": "Whether to run. More is not shown."},
        "level": {"type": "integer"},
        "engine": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "enum": ["moby", "containerd"]},
                "label": {"type": "string"},
            },
        },
        "cluster": {
            "type": "object",
            "required": ["enabled"],
            "properties": {"enabled": {"type": "boolean"}, "version": {"type": "string"}},
        },
        "memory": {"x-kubernetes-int-or-string": True, "anyOf": []},
        "mirrors": {"type": "array", "items": {"type": "string"}},
        "rest": {"type": "array", "items": {"type": "object"}},
    },
}


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("running", 'invalid argument "running": expected PROPERTY=VALUE format'),
        ("=true", 'invalid argument "=true": property name must not be empty'),
    ],
)
def test_rejects_malformed_assignments(word: str, problem: str) -> None:
    with pytest.raises(CommandError) as error:
        parse_assignments(["a=b", word])
    assert str(error.value) == problem


def test_first_equals_sign_splits_and_last_value_wins() -> None:
    found = parse_assignments(["a=1", "b=x=y", "a=2"])
    assert [(a.path, a.text) for a in found] == [("b", "x=y"), ("a", "2")]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        pytest.param(
            "nope",
            'nope: unknown property "nope"; valid properties: cluster.enabled, cluster.version, '
            "engine.label, engine.name, level, memory, mirrors, rest, running",
            id="at the top",
        ),
        pytest.param(
            "engine.nope",
            'engine.nope: unknown property "nope" under "engine"; valid properties: label, name',
            id="further down",
        ),
        pytest.param(
            "running.x",
            'running.x: "running" is not an object and has no sub-properties',
            id="below a value",
        ),
        pytest.param(
            "engine",
            'engine: "engine" is an object; set its fields, e.g. "engine.label"',
            id="an object",
        ),
        pytest.param(
            "",
            ': unknown property ""; valid properties: cluster.enabled, cluster.version, '
            "engine.label, engine.name, level, memory, mirrors, rest, running",
            id="empty segment",
        ),
    ],
)
def test_unknown_property_lists_the_valid_ones(path: str, problem: str) -> None:
    with pytest.raises(CommandError) as error:
        find(path, SMALL)
    assert str(error.value) == problem


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        *(("running", text, True) for text in ("1", "t", "T", "true", "TRUE", "True")),
        *(("running", text, False) for text in ("0", "f", "F", "false", "FALSE", "False")),
        ("level", "-7", -7),
        ("level", "+7", 7),
        ("engine.name", "moby", "moby"),
        ("engine.label", "", ""),
        ("memory", "4Gi", "4Gi"),
        ("memory", "", None),
        ("mirrors", "a, b,,c", ["a", "b", "c"]),
        ("mirrors", "", []),
    ],
)
def test_values_are_converted_by_their_schema(path: str, text: str, value: Any) -> None:
    found = coerce(path, text, find(path, SMALL))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        ("running", "yes", 'expected boolean; use "true" or "false"'),
        ("running", "", 'expected boolean; use "true" or "false"'),
        ("level", "1.5", "expected integer"),
        ("level", "", "expected integer"),
        ("level", "9223372036854775808", "expected integer"),
        ("engine.name", "docker", "valid values: moby, containerd"),
        ("engine.name", "", "valid values: moby, containerd"),
        ("rest", "x", "expected a list"),
    ],
)
def test_rejects_values_of_the_wrong_type_with_the_allowed_ones(
    path: str, text: str, why: str
) -> None:
    with pytest.raises(CommandError) as error:
        coerce(path, text, find(path, SMALL))
    assert str(error.value) == f'invalid value "{text}" for "{path}": {why}'


def test_assignments_merge_into_one_spec() -> None:
    words = ["engine.name=moby", "running=true", "engine.label=x"]
    assert resolve(parse_assignments(words), SMALL) == {
        "engine": {"name": "moby", "label": "x"},
        "running": True,
    }


def test_new_app_gets_zero_values_for_required_fields() -> None:
    assert with_required({"cluster": {"version": "1"}}, SMALL) == {
        "cluster": {"version": "1", "enabled": False},
        "running": False,
        "level": 0,
        "engine": {"name": "moby"},
    }


def test_the_table_shows_first_sentences_and_wraps() -> None:
    lines = describe(SMALL, 60).splitlines()
    assert lines[0] == "Available properties:"
    running = next(line for line in lines if line.startswith("  running"))
    assert "(boolean)" in running
    assert running.endswith("Whether to run.")
    assert any("(moby|containerd)" in line for line in lines)
    assert any("(quantity)" in line for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_table_of_properties_fits_the_terminal(width: int) -> None:
    text = describe(spec_schema(definition_of(App)), width)
    assert max(map(len, text.splitlines())) <= max(width, 50)  # a long type is not broken
    assert "downloads.mirror" in text
    assert "https://" in text  # a URL is not broken either


def test_the_namespace_of_the_app_cannot_be_set() -> None:
    schema = spec_schema(definition_of(App))
    with pytest.raises(CommandError, match='unknown property "namespace"'):
        find("namespace", schema)
    assert find("containerEngine.name", schema)["enum"] == ["moby", "containerd"]
