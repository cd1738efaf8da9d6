# SPDX-License-Identifier: Apache-2.0
"""The history of the App: what is described, masked and kept."""

import json
from typing import Any

import pytest

from rdd.api import names
from rdd.api.types import Object
from rdd.controllers.app.app.history import MAX_CHANGES, annotated, bounded, parse
from rdd.kinds.app import App
from rdd.runtime import AdmissionRequest, ObjectKey


def app(spec: Object, annotations: dict[str, str] | None = None) -> App:
    return App.of({"metadata": {"name": "app", "annotations": annotations or {}}, "spec": spec})


def changed(
    new: Object,
    old: Object | None = None,
    before: str = "",
    annotations: dict[str, str] | None = None,
) -> list[Object]:
    stored = None if old is None else app(old, {names.CHANGES: before} if before else None)
    request: AdmissionRequest[App] = AdmissionRequest(
        operation="UPDATE" if stored else "CREATE",
        key=ObjectKey("", "app"),
        object=app(new),
        old=stored,
        user="me",
        groups=(),
        is_dry_run=False,
        options={"fieldManager": "test"},
    )
    found = annotated(app(new, annotations), request, clock=0)
    return parse(found.metadata.annotations.get(names.CHANGES, ""))


def test_a_change_lists_each_field_with_old_and_new_value() -> None:
    (change,) = changed(
        {"running": True, "proxy": {"noProxy": ["a"]}},
        {"running": False, "kubernetes": {"version": "1"}, "application": {}},
    )
    assert (change["user"], change["manager"], change["time"]) == (
        "me",
        "test",
        "1970-01-01T00:00:00Z",
    )
    assert change["fields"] == [
        {"field": "kubernetes.version", "old": "1", "new": None},
        {"field": "proxy.noProxy", "old": None, "new": ["a"]},
        {"field": "running", "old": False, "new": True},
    ]


def test_a_creation_lists_only_what_differs_from_the_defaults() -> None:
    (change,) = changed({"running": False, "containerEngine": {"name": "moby"}, "proxy": {"a": 1}})
    assert [field["field"] for field in change["fields"]] == ["proxy.a"]
    assert change["operation"] == "create"


def test_a_creation_does_not_list_the_defaults_of_this_host() -> None:
    spec = {"virtualMachine": {"cpus": 2, "memory": "3Gi"}}
    marks = {names.CPUS_DEFAULTED: "true", names.MEMORY_DEFAULTED: "false"}
    (change,) = changed(spec, annotations=marks)
    assert [field["field"] for field in change["fields"]] == ["virtualMachine.memory"]


def test_an_equal_spec_is_no_change() -> None:
    assert changed({"running": True}, {"running": True}) == []


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://me:pass@host:1", "http://***@host:1"),
        (["https://me@h", "plain"], ["https://***@h", "plain"]),
        ("x" * 5000, "(5002 characters)"),
    ],
)
def test_credentials_and_long_values_are_not_recorded(value: Any, shown: Any) -> None:
    (change,) = changed({"proxy": {"httpProxy": value}}, {"proxy": {"httpProxy": "http://h"}})
    assert change["fields"] == [
        {"field": "proxy.httpProxy", "old": "http://h", "new": shown, "masked": ["new"]}
    ]


def test_the_annotation_is_bounded_and_continues_the_stored_one() -> None:
    text = ""
    for n in range(60):
        text = json.dumps(changed({"n": [str(n) * 500]}, {"n": [str(n - 1) * 500]}, text))
    kept = parse(text)
    assert len(kept) <= 20
    assert len(text) < 40_000
    assert kept[-1]["fields"][0]["new"] == ["59" * 500]


@pytest.mark.parametrize("text", ["", "{", "{}", "[1]", '[{"id": 1}]', "null"])
def test_a_damaged_annotation_is_ignored(text: str) -> None:
    assert len(changed({"running": True}, {"running": False}, text)) == 1


def entry(n: int, size: int = 1) -> Object:
    time = f"2026-01-{n // 100 + 1:02d}T00:00:{n % 60:02d}Z"
    field = {"field": "f", "old": None, "new": "x" * size}
    return {"id": str(n), "time": time, "user": "u", "manager": "m", "fields": [field]}


def test_the_last_500_changes_of_90_days_are_kept() -> None:
    entries = [entry(n) for n in range(700)]
    assert [e["id"] for e in bounded(entries, "")] == [str(n) for n in range(200, 700)]
    assert len(bounded(entries, "")) == MAX_CHANGES
    recent = bounded(entries, "2026-01-07")
    assert [e["id"] for e in recent] == [str(n) for n in range(600, 700)]


def test_the_history_fits_in_a_config_map() -> None:
    kept = bounded([entry(n, 4000) for n in range(500)], "")
    assert 100 < len(kept) < 200
    assert kept[-1]["id"] == "499"
