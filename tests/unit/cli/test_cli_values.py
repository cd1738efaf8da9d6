# SPDX-License-Identifier: Apache-2.0
"""Lists, maps, objects and files as values of `rdd set`."""

import json
from pathlib import Path
from typing import Any

import pytest

from rdd.cli.commands.app.properties import Schema, coerce, find, spec_schema
from rdd.cli.commands.app.undo import reverse
from rdd.cli.framework.errors import CommandError
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of

APP: Schema = spec_schema(definition_of(App))
MIRRORS = [{"registry": "docker.io", "endpoints": ["https://m.example"]}]
PEM = "-----BEGIN CERTIFICATE-----\nMIIB{}\n-----END CERTIFICATE-----"
MAP: Schema = {"type": "object", "additionalProperties": {"type": "string"}}


def value(path: str, text: str) -> Any:
    return coerce(path, text, find(path, APP))


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("proxy.noProxy", "a, b,,c", ["a", "b", "c"]),
        ("proxy.noProxy", "", []),
        ("proxy.noProxy", '["a,b", "c"]', ["a,b", "c"]),
        ("registries.mirrors", json.dumps(MIRRORS), MIRRORS),
        ("registries.mirrors", "[{registry: docker.io, endpoints: [https://m.example]}]", MIRRORS),
        ("registries.mirrors", "", []),
    ],
)
def test_lists_from_text(path: str, text: str, expected: Any) -> None:
    assert value(path, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a=1,b=x=y", {"a": "1", "b": "x=y"}), ('{"a": "1"}', {"a": "1"}), ("", {})],
)
def test_maps_from_text(text: str, expected: Any) -> None:
    assert coerce("labels", text, MAP) == expected


def test_certificates_of_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one.pem", tmp_path / "two.pem"
    one.write_text(f"subject=x\n{PEM.format(1)}\nissuer\n{PEM.format(2)}")
    two.write_text(PEM.format(3))
    found = value("certificates.authorities", f"@{one},@{two}")
    assert found == [f"{PEM.format(n)}\n" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "content", [json.dumps(MIRRORS), "- registry: docker.io\n  endpoints: [https://m.example]\n"]
)
def test_objects_of_a_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "mirrors"
    file.write_text(content)
    assert value("registries.mirrors", f"@{file}") == MIRRORS


@pytest.mark.parametrize("content", ["a\n\n b \n", "- a\n- b\n", '["a", "b"]'])
def test_texts_of_a_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "names"
    file.write_text(content)
    assert value("proxy.noProxy", f"@{file}") == ["a", "b"]


def test_a_text_that_starts_with_at_is_no_file() -> None:
    assert value("proxy.httpProxy", "@x") == "@x"


@pytest.mark.parametrize(
    ("path", "text", "why"),
    [
        (
            "registries.mirrors",
            "docker.io",
            "expected a list of maps with the members endpoints, registry, as JSON or YAML",
        ),
        ("registries.mirrors", "[1]", "[0]: expected a map"),
        ("registries.mirrors", "[{registry: x}]", 'the member "endpoints" is missing'),
        ("registries.mirrors", "[{registry: 1, endpoints: []}]", "[0].registry: expected a string"),
        (
            "registries.mirrors",
            "[{registry: x, endpoint: []}]",
            'unknown member "endpoint"; did you mean "endpoints"?',
        ),
        ("registries.mirrors", "[{", "expected a list as JSON or YAML: yaml: "),
        ("registries.mirrors", "{a: 1, a: 2}", "without repeated keys"),
        ("registries.mirrors", "[" * 100_000, "expected a list as JSON or YAML"),
        ("proxy.noProxy", "[1]", "[0]: expected a string"),
        ("proxy.noProxy", "@", 'cannot read the file ""'),
        ("proxy.noProxy", "@/none", 'cannot read the file "/none": No such file or directory'),
        ("proxy.noProxy", "@/", 'cannot read the file "/": Is a directory'),
        ("proxy.noProxy", "@/dev/zero", 'the file "/dev/zero" is larger than 1 MiB'),
        ("registries.mirrors", "@/dev/null", "expected a list"),
    ],
)
def test_wrong_values_are_reported_in_one_line(path: str, text: str, why: str) -> None:
    with pytest.raises(CommandError) as error:
        value(path, text)
    message = str(error.value)
    assert why in message
    assert f'for "{path}": ' in message
    assert "\n" not in message and len(message) < 600


def test_undo_refuses_what_was_changed_since_and_shows_both() -> None:
    change = {"fields": [{"field": "proxy.noProxy", "old": None, "new": ["x"]}]}
    assert reverse(change, {"spec": {"proxy": {"noProxy": ["x"]}}}) == {"proxy": {"noProxy": None}}
    with pytest.raises(CommandError) as error:
        reverse(change, {"spec": {"proxy": {"noProxy": ["y"]}}})
    assert str(error.value) == (
        "proxy.noProxy is y now, and the change was from - to x; nothing was changed"
    )


def test_a_file_that_is_no_text_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="is not UTF-8 text"):
        value("certificates.authorities", f"@{file}")
