# SPDX-License-Identifier: Apache-2.0
"""Status conditions, as metav1.Condition defines them.

A `Condition` is a value without a time. `set_condition` merges it into the condition list of
an object and applies the rule of Kubernetes: `lastTransitionTime` changes only when the status
of the condition changes.

    conditions = set_condition(
        conditions_of(obj), Condition("Ready", "False", "StartFailed", str(error)), now=now)

Cached objects are shared, so no function here modifies its arguments: the result is a new
list, or the same list object if nothing changes. The API server and the controllers both use
this module; controllers import it as part of `rdd.runtime`, which adds reason tables
(`rdd.runtime.conditions`) and writes the result (`rdd.runtime.status.StatusWriter`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from rdd.api.types import Object

ConditionStatus = Literal["True", "False", "Unknown"]

MAX_MESSAGE = 32768
"""Maximum length of a message in characters, as the schema of metav1.Condition has it."""

TRUNCATED = "… (truncated)"


def truncate_message(message: str, limit: int = MAX_MESSAGE) -> str:
    """Return a message that fits the limit; a truncated one ends with a remark."""
    return message if len(message) <= limit else message[: limit - len(TRUNCATED)] + TRUNCATED


class Condition(NamedTuple):
    """One condition, without the time of its last transition."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    observed_generation: int = 0
    """The generation that the condition was derived from; 0 omits the member."""

    def at(self, generation: int) -> "Condition":
        """Return the condition with an observed generation, unless it already has one."""
        return self if self.observed_generation else self._replace(observed_generation=generation)

    def is_in(self, conditions: Sequence[Object] | None) -> bool:
        """Return whether a condition list has this status, reason and message for the type.

        The observed generation is compared only if it is set.
        """
        present = find_condition(conditions, self.type) or {}
        return (
            self.status == present.get("status")
            and self.reason == present.get("reason")
            and truncate_message(self.message) == present.get("message")
            and self.observed_generation in (0, present.get("observedGeneration"))
        )

    def is_transition(self, conditions: Sequence[Object] | None) -> bool:
        """Return whether status or reason differ from those in a condition list."""
        present = find_condition(conditions, self.type) or {}
        return (self.status, self.reason) != (present.get("status"), present.get("reason"))

    def to_object(self, conditions: Sequence[Object] | None = None, *, now: str) -> Object:
        """Return the wire form that replaces the one in `conditions`.

        `now` is a metav1.Time. It becomes the transition time unless the status is unchanged.
        """
        present = find_condition(conditions, self.type) or {}
        is_same = present.get("status") == self.status
        made: Object = {"type": self.type, "status": self.status}
        if self.observed_generation:
            made["observedGeneration"] = self.observed_generation
        made["lastTransitionTime"] = (is_same and present.get("lastTransitionTime")) or now
        made["reason"] = self.reason
        made["message"] = truncate_message(self.message)
        return made


def set_condition(
    conditions: Sequence[Object] | None, *wanted: Condition | Object, now: str
) -> list[Object]:
    """Return the list with these conditions set; the same list if it already has them.

    A condition given as an object, with a transition time of its own, is set unchanged.
    """
    present = conditions if isinstance(conditions, list) else list(conditions or ())
    for condition in wanted:
        made: Object = (
            condition.to_object(present, now=now) if isinstance(condition, Condition) else condition
        )
        for i, old in enumerate(present):
            if old.get("type") == made["type"]:
                if old != made:
                    present = [*present[:i], made, *present[i + 1 :]]
                break
        else:
            present = [*present, made]
    return present


def remove_condition(conditions: Sequence[Object] | None, *types: str) -> list[Object]:
    """Return the list without the conditions of these types; the same list if it has none."""
    present = conditions if isinstance(conditions, list) else list(conditions or ())
    left = [condition for condition in present if condition.get("type") not in types]
    return left if len(left) != len(present) else present


def find_condition(conditions: Sequence[Object] | None, type_: str) -> Object | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions or () if c.get("type") == type_), None)


def is_true(conditions: Sequence[Object] | None, type_: str) -> bool:
    """Return whether the list has a condition of the type with status True."""
    return (find_condition(conditions, type_) or {}).get("status") == "True"


def conditions_of(obj: Mapping[str, Any]) -> list[Object]:
    """Return the condition list of an object; empty without one."""
    return (obj.get("status") or {}).get("conditions") or []
