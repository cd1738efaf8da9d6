# SPDX-License-Identifier: Apache-2.0
"""Conditions: merged without modifying the list, with transition times; tables of reasons."""

from typing import Any

import pytest

from rdd.runtime.conditions import (
    FORWARDED,
    MAX_MESSAGE,
    Condition,
    Reason,
    ReasonTable,
    conditions_of,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
    truncate_message,
)

T1, T2 = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def ready(status: Any = "True", *, reason: str = "Up", message: str = "", now: str = T1) -> Any:
    return {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }


def test_appends_a_new_condition() -> None:
    other = {"type": "Other", "status": "False"}
    made = set_condition([other], Condition("Ready", "True", "Up", observed_generation=3), now=T1)
    assert made == [other, {**ready(), "observedGeneration": 3}]


def test_transition_time_changes_only_with_the_status() -> None:
    first = set_condition(None, Condition("Ready", "True", "Up"), now=T1)
    same_status = set_condition(first, Condition("Ready", "True", "Up", "still"), now=T2)
    assert same_status == [ready(message="still")]
    other_status = set_condition(same_status, Condition("Ready", "False", "Down"), now=T2)
    assert other_status == [ready("False", reason="Down", now=T2)]


def test_returns_the_same_list_if_nothing_changes() -> None:
    present = [ready()]
    assert set_condition(present, Condition("Ready", "True", "Up"), now=T2) is present


def test_new_generation_is_a_change() -> None:
    present = [{**ready(), "observedGeneration": 1}]
    changed = set_condition(
        present, Condition("Ready", "True", "Up", observed_generation=2), now=T2
    )
    assert changed == [{**ready(), "observedGeneration": 2}]
    assert present == [{**ready(), "observedGeneration": 1}]


@pytest.mark.parametrize(
    ("length", "shown"),
    [
        pytest.param(MAX_MESSAGE, "ä" * MAX_MESSAGE, id="fits"),
        pytest.param(
            MAX_MESSAGE + 1, "ä" * (MAX_MESSAGE - 13) + "… (truncated)", id="one-too-many"
        ),
    ],
)
def test_truncates_messages_between_characters(length: int, shown: str) -> None:
    assert truncate_message("ä" * length) == shown
    (made,) = set_condition([], Condition("Ready", "True", "Up", "ä" * length), now=T1)
    assert len(made["message"]) == MAX_MESSAGE


def test_finds_and_removes_conditions() -> None:
    present = [ready(), {"type": "Other", "status": "False"}]
    assert find_condition(present, "Ready") is present[0]
    assert is_true(present, "Ready")
    assert not is_true(present, "Other")
    assert not is_true(None, "Ready")
    assert remove_condition(present, "Ready") == present[1:]
    assert remove_condition(present, "Absent") is present
    assert conditions_of({"status": {"conditions": present}}) is present
    assert conditions_of({}) == []


def test_sets_several_conditions_and_objects_unchanged() -> None:
    mirrored = {"type": "Running", "status": "True", "lastTransitionTime": T1}
    made = set_condition([ready()], Condition("Ready", "False", "Down"), mirrored, now=T2)
    assert made == [ready("False", reason="Down", now=T2), mirrored]
    assert made[1] is mirrored


def test_compares_with_a_condition_list() -> None:
    present = [{**ready(message="m"), "observedGeneration": 2}]
    wanted = Condition("Ready", "True", "Up", "m")
    assert wanted.is_in(present)
    assert wanted.at(2).is_in(present)
    assert not wanted.at(3).is_in(present)
    assert not wanted._replace(message="n").is_in(present)
    assert not wanted.is_in(None)
    assert not wanted._replace(message="n").is_transition(present)
    assert wanted._replace(reason="Other").is_transition(present)
    assert wanted.is_transition(None)


def test_observed_generation_is_set_once() -> None:
    assert Condition("Ready", "True", "Up").at(3).at(4).observed_generation == 3


REASONS = ReasonTable(
    Reason("Ready", "True", "Up", "It is up", "all is well"),
    Reason("Ready", "False", "Failed", FORWARDED, "it failed"),
    Reason("Ready", "Unknown", "Lost", "Cannot connect: …", "the connection was lost"),
)


@pytest.mark.parametrize(
    ("reason", "message", "expected"),
    [
        pytest.param("Up", "", Condition("Ready", "True", "Up", "It is up"), id="fixed"),
        pytest.param("Up", "other", Condition("Ready", "True", "Up", "other"), id="replaced"),
        pytest.param("Failed", "disk", Condition("Ready", "False", "Failed", "disk"), id="forward"),
        pytest.param(
            "Failed", "", Condition("Ready", "False", "Failed", "it failed"), id="meaning"
        ),
        pytest.param(
            "Lost", "EOF", Condition("Ready", "Unknown", "Lost", "Cannot connect: EOF"), id="prefix"
        ),
    ],
)
def test_makes_conditions_from_the_table(reason: str, message: str, expected: Condition) -> None:
    assert REASONS.condition("Ready", reason, message) == expected


def test_rejects_reasons_that_are_not_in_the_table() -> None:
    with pytest.raises(KeyError):
        REASONS.condition("Ready", "Unheard")
    with pytest.raises(ValueError, match="same reason twice"):
        ReasonTable(Reason("Ready", "True", "Up"), Reason("Ready", "False", "Up"))


def test_renders_the_table() -> None:
    assert REASONS.markdown().splitlines()[2:4] == [
        "| Ready | True | `Up` | `It is up` | all is well |",
        "| Ready | False | `Failed` | *(forwarded)* | it failed |",
    ]
