# SPDX-License-Identifier: Apache-2.0
"""Layout of tables, templates, errors and titles in the built-in client."""

from typing import Any

import pytest

from rdd.api.errors import from_status
from rdd.client.errors import Unreachable
from rdd.kubectl.errors import (
    AggregateError,
    Failure,
    KubectlError,
    NoSuchResource,
    message_of,
    within,
)
from rdd.kubectl.printers.describers import _title as title
from rdd.kubectl.printers.sort import sort_objects
from rdd.kubectl.printers.tables import TableOptions, TablePrinter
from rdd.kubectl.printers.tabwriter import TabWriter, aligned
from rdd.kubectl.printers.templates import Template, relaxed

TABLE: dict[str, Any] = {
    "kind": "Table",
    "columnDefinitions": [
        {"name": "Name", "format": "name"},
        {"name": "Size", "type": "integer"},
        {"name": "Note", "priority": 1},
    ],
    "rows": [
        {
            "cells": ["a", 1, "first\nsecond"],
            "object": {"metadata": {"namespace": "n", "labels": {"x": "1", "y/z": "2"}}},
        },
        {"cells": ["longer-name", None, None], "object": {"metadata": {"namespace": "m"}}},
    ],
}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            TableOptions(), "NAME          SIZE\na             1\nlonger-name   \n", id="plain"
        ),
        pytest.param(
            TableOptions(is_wide=True, no_headers=True),
            "a             1     first...\nlonger-name         \n",
            id="wide",
        ),
        pytest.param(
            TableOptions(with_namespace=True, kind="thing", label_columns=("y/z",)),
            "NAMESPACE   NAME                SIZE   Z\n"
            "n           thing/a             1      2\n"
            "m           thing/longer-name          \n",
            id="namespace, kind and label",
        ),
        pytest.param(
            TableOptions(show_labels=True, with_event=True),
            "EVENT   NAME          SIZE   LABELS\n"
            "ADDED   a             1      x=1,y/z=2\n"
            "ADDED   longer-name          <none>\n",
            id="labels and event",
        ),
    ],
)
def test_tables_have_the_layout_of_kubectl(options: TableOptions, expected: str) -> None:
    assert TablePrinter(options).show(TABLE, event="ADDED") == expected


def test_watch_keeps_column_widths() -> None:
    printer = TablePrinter(TableOptions())
    printer.show(TABLE)
    row = {"kind": "Table", "rows": [{"cells": ["b", 2, ""], "object": {}}]}
    assert printer.show(row) == "b             2\n"


def test_objects_without_a_table_show_name_and_age() -> None:
    shown = TablePrinter(TableOptions()).show({"kind": "X", "metadata": {"name": "a"}})
    assert shown == "NAME   AGE\na      <unknown>\n"


def test_escape_sequences_of_objects_do_not_reach_the_terminal() -> None:
    row = {"kind": "Table", "columnDefinitions": [{"name": "N"}], "rows": [{"cells": ["\x1b[2J"]}]}
    assert TablePrinter(TableOptions()).show(row) == "N\n^[[2J\n"


def test_column_ends_at_line_without_it() -> None:
    text = "Name:\ta\nLonger title:\tb\nPlain\nX:\ty\n\tz\n"
    assert aligned(text, min_width=0, padding=2) == (
        "Name:          a\nLonger title:  b\nPlain\nX:  y\n    z\n"
    )
    writer = TabWriter()
    writer.line("a", "b", "c")
    writer.line("longer-one", "x")
    assert writer.flush() == "a            b     c\nlonger-one   x\n"


DATA: dict[str, Any] = {
    "items": [
        {"name": "a", "n": 1, "tags": ["x", "y"], "f": 1.5, "ok": True, "none": None},
        {"name": "b", "n": 2, "k.d/e": "dotted"},
    ]
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain", "plain"),
        ("{.items[*].name}", "a b"),
        ("{.items[*].n}-{.nope}-", "1 2--"),
        ('{range .items[*]}{.name}{"\\t"}{.n}{"\\n"}{end}', "a\t1\nb\t2\n"),
        ("{range .items[*]}[{range .tags[*]}{@}{end}]{end}", "[xy][]"),
        ("{.items[0].tags}", '["x","y"]'),
        ("{.items[0].f} {.items[0].ok} {.items[0].none}", "1.5 true <nil>"),
        ("{.items[1]['k\\.d/e']}", "dotted"),
        ('{.items[?(@.name=="b")].n}', "2"),
        ('{"}"}{.items[0].name}', "}a"),
    ],
)
def test_templates(template: str, expected: str) -> None:
    assert Template(template).render(DATA) == expected


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("{.a", "unclosed action"),
        ('{"a', "unterminated quoted string"),
        ("{end}", "not in range, nothing to end"),
        ("{range .a}x", "unterminated range"),
    ],
)
def test_broken_templates_are_explained(template: str, problem: str) -> None:
    with pytest.raises(KubectlError) as caught:
        Template(template)
    assert str(caught.value) == f"error parsing jsonpath {template}, {problem}"


@pytest.mark.parametrize("written", ["spec.a", ".spec.a", "{spec.a}", "{.spec.a}"])
def test_short_paths_are_normalised(written: str) -> None:
    assert relaxed(written) == "{.spec.a}"


@pytest.mark.parametrize("written", ["", "{.a", "a}b"])
def test_paths_with_unbalanced_braces_are_rejected(written: str) -> None:
    with pytest.raises(KubectlError, match="unexpected path string"):
        relaxed(written)


def test_numbers_sort_naturally() -> None:
    objects = [{"v": v} for v in ("a10", "a9", "b", "a")]
    assert [o["v"] for o in sort_objects(objects, ".v")] == ["a", "a9", "a10", "b"]
    numbers: list[dict[str, Any]] = [{"v": 10}, {"v": 9}, {}]
    assert [o.get("v") for o in sort_objects(numbers, "{.v}")] == [None, 9, 10]
    with pytest.raises(KubectlError, match="couldn't find any field"):
        sort_objects(numbers, ".nope")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lastTransitionTime", "Last Transition Time"),
        ("apiVersion", "API Version"),
        ("uid", "UID"),
        ("myID", "My ID"),
        ("PDFLoader", "PDF Loader"),
        ("x-kubernetes-int", "X - Kubernetes - Int"),
        ("openAPIV3Schema", "openAPIV3Schema"),
        ("a.b/c", "a.b/c"),
    ],
)
def test_titles_of_fields_are_readable(name: str, expected: str) -> None:
    assert title(name) == expected


INVALID = {
    "reason": "Invalid",
    "message": "…",
    "details": {
        "kind": "Role",
        "name": "r",
        "causes": [
            {"field": "a", "message": "one"},
            {"field": "a", "message": "one"},
            {"field": "b", "message": "two"},
        ],
    },
}


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        pytest.param(
            within(from_status({"reason": "NotFound", "message": "x"}), "error when creating"),
            "Error from server (NotFound): error when creating: x",
            id="reason and context",
        ),
        pytest.param(from_status({"message": "x"}), "Error from server: x", id="no reason"),
        pytest.param(
            from_status({"reason": "Unauthorized", "message": "Unauthorized"}),
            "error: You must be logged in to the server (Unauthorized)",
            id="unauthorized",
        ),
        pytest.param(
            from_status(INVALID), 'The Role "r" is invalid: \n* a: one\n* b: two', id="causes"
        ),
        pytest.param(
            from_status({"reason": "Invalid", "message": "bad"}),
            "The request is invalid: bad",
            id="invalid without details",
        ),
        pytest.param(
            Unreachable("refused", address="h:1", is_refused=True),
            "The connection to the server h:1 was refused"
            " - did you specify the right host or port?",
            id="refused",
        ),
        pytest.param(
            Unreachable("no route", address="h:1"),
            "Unable to connect to the server: no route",
            id="unreachable",
        ),
        pytest.param(
            AggregateError([KubectlError("one"), NoSuchResource("x"), KubectlError("one")]),
            'one\nthe server doesn\'t have a resource type "x"',
            id="several",
        ),
    ],
)
def test_failures_have_the_text_of_kubectl(failure: Failure, expected: str) -> None:
    assert message_of(failure) == expected
