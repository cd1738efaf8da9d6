# SPDX-License-Identifier: Apache-2.0
"""Conditions, as metav1.Condition has them.

    conditions = set_condition(
        vm.raw["status"].get("conditions"), "Running", "False",
        reason="StartFailed", message=str(error), generation=vm.metadata.generation, now=now)

Objects from a cache are shared, so nothing is changed in place: the result is a
new list, or the very same one if there is nothing to change. The transition
time moves only when the status does.
"""

from collections.abc import Sequence
from typing import Literal

from rdd.runtime.types import Object

Status = Literal["True", "False", "Unknown"]

MAX_MESSAGE = 32768
"""Characters of a message, as the schema of a condition limits them."""

TRUNCATED = "… (truncated)"


def truncated(message: str, limit: int = MAX_MESSAGE) -> str:
    """A message that fits; a longer one ends in a remark that it was longer."""
    return message if len(message) <= limit else message[: limit - len(TRUNCATED)] + TRUNCATED


def condition(
    type_: str, status: Status, *, reason: str, message: str = "", generation: int = 0, now: str
) -> Object:
    """A new condition. `now` is a metav1.Time; `generation` is left out if it is 0."""
    made: Object = {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": truncated(message),
        "lastTransitionTime": now,
    }
    if generation:
        made["observedGeneration"] = generation
    return made


def next_condition(
    conditions: Sequence[Object] | None,
    type_: str,
    status: Status,
    *,
    reason: str,
    message: str = "",
    generation: int = 0,
    now: str,
) -> Object:
    """A condition in place of the present one of its type, whose transition time it may keep."""
    wanted = condition(
        type_, status, reason=reason, message=message, generation=generation, now=now
    )
    known = find_condition(conditions, type_) or {}
    if known.get("status") == status:
        wanted["lastTransitionTime"] = known.get("lastTransitionTime") or now
    return wanted


def set_condition(
    conditions: Sequence[Object] | None,
    type_: str,
    status: Status,
    *,
    reason: str,
    message: str = "",
    generation: int = 0,
    now: str,
) -> list[Object]:
    """The conditions with one of them set; the same list if it already is as wanted."""
    present = conditions if isinstance(conditions, list) else list(conditions or ())
    wanted = next_condition(
        present, type_, status, reason=reason, message=message, generation=generation, now=now
    )
    for i, known in enumerate(present):
        if known.get("type") == type_:
            return present if known == wanted else [*present[:i], wanted, *present[i + 1 :]]
    return [*present, wanted]


def remove_condition(conditions: Sequence[Object] | None, type_: str) -> list[Object]:
    """The conditions without one."""
    return [known for known in conditions or () if known.get("type") != type_]


def find_condition(conditions: Sequence[Object] | None, type_: str) -> Object | None:
    """The condition of a type."""
    return next((known for known in conditions or () if known.get("type") == type_), None)


def is_true(conditions: Sequence[Object] | None, type_: str) -> bool:
    """Whether there is such a condition and its status is True."""
    return (find_condition(conditions, type_) or {}).get("status") == "True"
