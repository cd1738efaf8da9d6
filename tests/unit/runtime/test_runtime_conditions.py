# SPDX-License-Identifier: Apache-2.0
"""Conditions: set without changing anything in place, with the time of the last transition."""

from typing import Any

import pytest

from rdd.runtime.conditions import (
    MAX_MESSAGE,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
    truncated,
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


def test_a_condition_is_added_behind_the_others() -> None:
    other = {"type": "Other", "status": "False"}
    made = set_condition([other], "Ready", "True", reason="Up", now=T1, generation=3)
    assert made == [other, {**ready(), "observedGeneration": 3}]


def test_the_transition_time_moves_only_with_the_status() -> None:
    first = set_condition(None, "Ready", "True", reason="Up", now=T1)
    same_status = set_condition(first, "Ready", "True", reason="Up", message="still", now=T2)
    assert same_status == [ready(message="still")]
    other_status = set_condition(same_status, "Ready", "False", reason="Down", now=T2)
    assert other_status == [ready("False", reason="Down", now=T2)]


def test_setting_what_is_set_gives_the_same_list() -> None:
    present = [ready()]
    assert set_condition(present, "Ready", "True", reason="Up", now=T2) is present


def test_a_new_generation_is_a_change() -> None:
    present = [{**ready(), "observedGeneration": 1}]
    changed = set_condition(present, "Ready", "True", reason="Up", generation=2, now=T2)
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
def test_messages_end_at_the_limit_on_the_border_of_a_character(length: int, shown: str) -> None:
    assert truncated("ä" * length) == shown
    (made,) = set_condition([], "Ready", "True", reason="Up", message="ä" * length, now=T1)
    assert len(made["message"]) == MAX_MESSAGE


def test_conditions_are_found_asked_and_removed() -> None:
    present = [ready(), {"type": "Other", "status": "False"}]
    assert find_condition(present, "Ready") is present[0]
    assert is_true(present, "Ready")
    assert not is_true(present, "Other")
    assert not is_true(None, "Ready")
    assert remove_condition(present, "Ready") == present[1:]
