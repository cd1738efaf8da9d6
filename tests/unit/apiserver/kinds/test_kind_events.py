# SPDX-License-Identifier: Apache-2.0
"""Events in both groups."""

from typing import Any

import pytest

from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.kinds import catalog, events

MICRO = "2026-01-02T03:04:05.000000Z"
core, v1 = events.EventStrategy(), events.EventsV1Strategy()
read_core = catalog.decoder("io.k8s.api.core.v1.Event")
read_v1 = catalog.decoder("io.k8s.api.events.v1.Event")
COMPLETE: Object = {
    "metadata": {"name": "e", "namespace": "n"},
    "regarding": {"namespace": "n", "kind": "X", "name": "x"},
    "eventTime": MICRO,
    "reportingController": "example.com/c",
    "reportingInstance": "i",
    "action": "A",
    "reason": "R",
    "type": "Normal",
    "note": "hello",
}


def texts(errors: list[FieldError]) -> list[str]:
    return [str(e) for e in errors]


def event(involved: str = "", *, namespace: str = "n", **members: Any) -> Object:
    reference = {"namespace": involved} if involved else {}
    meta = {"name": "e", "namespace": namespace}
    return read_core({"metadata": meta, "involvedObject": reference, **members}, [])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(event("n"), [], id="same-namespace"),
        pytest.param(event("", namespace="default"), [], id="cluster-scoped-in-default"),
        pytest.param(
            event("other"),
            ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
            id="other-namespace",
        ),
        pytest.param(
            event(""),
            ['involvedObject.namespace: Invalid value: "": does not match event.namespace'],
            id="no-namespace",
        ),
        pytest.param(
            event("n", eventTime=MICRO, reportingInstance="i" * 129),
            [
                "reportingController: Required value",
                'reportingController: Invalid value: "": name part must be non-empty',
                'reportingController: Invalid value: "": name part must consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric "
                "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
                "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                'reportingInstance: Invalid value: "": can have at most 128 characters',
                "action: Required value",
                "reason: Required value",
            ],
            id="incomplete-new-event",
        ),
    ],
)
def test_core_event_and_its_object_share_a_namespace(given: Object, expected: list[str]) -> None:
    assert texts(core.validate(given).errors) == expected


def test_complete_event_is_accepted_by_both_groups() -> None:
    obj = read_v1(COMPLETE, [])
    assert v1.validate(obj).errors == []
    assert core.validate(v1.to_storage(obj)).errors == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            {"type": "Odd"},
            ['type: Invalid value: "": has invalid value: Odd'],
            id="type",
        ),
        pytest.param(
            {"deprecatedCount": 2},
            ['count: Invalid value: "": needs to be unset'],
            id="count",
        ),
        pytest.param(
            {"deprecatedSource": {"component": "c"}},
            ['source: Invalid value: "": needs to be unset'],
            id="source",
        ),
        pytest.param(
            {"series": {"count": 1}},
            [
                'series.count: Invalid value: "": should be at least 2',
                "series.lastObservedTime: Required value",
            ],
            id="series",
        ),
        pytest.param(
            {"note": "x" * 1025},
            ['message: Invalid value: "": can have at most 1024 characters'],
            id="note",
        ),
    ],
)
def test_new_events_are_validated_strictly(change: Object, expected: list[str]) -> None:
    assert texts(v1.validate(read_v1({**COMPLETE, **change}, [])).errors) == expected


def test_only_series_and_metadata_of_an_event_change() -> None:
    old = read_v1(COMPLETE, [])
    series = {"count": 2, "lastObservedTime": MICRO}
    assert v1.validate_update(read_v1({**COMPLETE, "series": series}, []), old).errors == []
    changed = read_v1({**COMPLETE, "note": "other", "reportingController": "example.com/d"}, [])
    assert texts(v1.validate_update(changed, old).errors) == [
        'message: Invalid value: "other": field is immutable',
        'reportingController: Invalid value: "example.com/d": field is immutable',
    ]


def test_stored_form_is_the_core_event() -> None:
    stored = v1.to_storage(read_v1(COMPLETE, []))
    assert stored == {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": "e", "namespace": "n"},
        "involvedObject": {"kind": "X", "namespace": "n", "name": "x"},
        "reason": "R",
        "message": "hello",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "type": "Normal",
        "eventTime": MICRO,
        "action": "A",
        "reportingComponent": "example.com/c",
        "reportingInstance": "i",
    }


def test_conversion_loses_nothing() -> None:
    obj = read_v1(
        {
            **COMPLETE,
            "series": {"count": 3, "lastObservedTime": MICRO},
            "related": {"kind": "Y", "name": "y"},
            "deprecatedCount": 3,
            "deprecatedSource": {"component": "c", "host": "h"},
            "deprecatedFirstTimestamp": "2026-01-02T03:04:05Z",
        },
        [],
    )
    assert v1.from_storage(v1.to_storage(obj)) == obj


def test_field_labels_of_both_groups_select_the_same_event() -> None:
    obj = read_v1(COMPLETE, [])
    new, old = v1.selectable_fields(obj), core.selectable_fields(v1.to_storage(obj))
    assert new["regarding.kind"] == old["involvedObject.kind"] == "X"
    assert new["reportingController"] == old["reportingComponent"] == "example.com/c"
    assert old["source"] == "example.com/c", "the controller stands in for a missing source"


@pytest.mark.parametrize(
    ("given", "cells"),
    [
        pytest.param(
            event(
                "n",
                involvedObject={"kind": "ConfigMap", "name": "x", "namespace": "n"},
                type="Normal",
                reason="R",
                message=" m ",
                count=3,
                source={"component": "c", "host": "h"},
            ),
            ["<unknown>", "Normal", "R", "configmap/x", "", "c, h", "m", "<unknown>", 3, "e"],
            id="old",
        ),
        pytest.param(
            v1.to_storage(read_v1(COMPLETE, [])),
            ["2m", "Normal", "R", "x/x", "", "example.com/c, i", "hello", "2m", 1, "e"],
            id="new",
        ),
        pytest.param(
            event("n", firstTimestamp="2026-01-02T03:04:05Z", lastTimestamp="2026-01-02T03:05:05Z"),
            ["60s", "", "", "", "", "", "", "2m", 1, "e"],
            id="times",
        ),
    ],
)
def test_table_shows_time_reason_and_reporter(given: Object, cells: list[Any]) -> None:
    now = 1767323165.0  # 2026-01-02T03:06:05Z
    assert core.cells(given, now=now) == cells
    assert v1.cells(v1.from_storage(given), now=now) == cells


def test_events_are_short_lived_and_errors_name_the_core_group() -> None:
    assert v1.ttl_s == core.ttl_s == 3600
    assert (v1.storage, v1.error_group) == (("", "events"), "")
