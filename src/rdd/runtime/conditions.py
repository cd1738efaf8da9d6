# SPDX-License-Identifier: Apache-2.0
"""Conditions of a controller, declared once in a table of reasons.

Other programs match reasons and messages, so a controller keeps all of them in one place and
makes every condition from there:

    REASONS = ReasonTable(
        Reason("Running", "True", "Started", "Instance is running", "the guest is up"),
        Reason("Running", "False", "StartFailed", FORWARDED, "the guest did not boot"),
        Reason("Ready", "False", "MergeFailed", "Cannot write the kubeconfig: …", "…"),
    )

    REASONS.condition("Running", "Started")                     fixed message
    REASONS.condition("Running", "StartFailed", str(error))     forwarded message
    REASONS.condition("Ready", "MergeFailed", str(error))       prefix and forwarded message

`ReasonTable.markdown` renders the table for a documentation page. `StatusWriter`
(rdd.runtime.status) writes conditions to objects. The condition list itself is handled by
rdd.api.conditions, whose names this module re-exports.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rdd.api.conditions import (
    MAX_MESSAGE,
    Condition,
    ConditionStatus,
    conditions_of,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
    truncate_message,
)

__all__ = [
    "FORWARDED",
    "MAX_MESSAGE",
    "Condition",
    "ConditionStatus",
    "Reason",
    "ReasonTable",
    "conditions_of",
    "find_condition",
    "is_true",
    "remove_condition",
    "set_condition",
    "truncate_message",
]

FORWARDED = "…"
"""At the end of a message template: replaced by a message from elsewhere, such as an error."""


class Reason(NamedTuple):
    """One row of a reason table."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    """A fixed message, or a template that ends with FORWARDED."""
    meaning: str = ""
    """What the reason means to a user, for the documentation."""


class ReasonTable:
    """All conditions that a controller can set, by type and reason."""

    def __init__(self, *rows: Reason) -> None:
        self._rows = {(row.type, row.reason): row for row in rows}
        if len(self._rows) != len(rows):
            raise ValueError("a condition type has the same reason twice")

    def __iter__(self) -> Iterator[Reason]:
        return iter(self._rows.values())

    def condition(self, type_: str, reason: str, message: str = "") -> Condition:
        """Return the condition for a reason; KeyError if the table does not have it.

        `message` completes a template. It replaces a fixed message. A template without one
        shows the meaning of the reason instead.
        """
        row = self._rows[type_, reason]
        text = message or row.message
        if row.message.endswith(FORWARDED):
            text = row.message.removesuffix(FORWARDED) + message if message else row.meaning
        return Condition(type_, row.status, reason, text)

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = ["| Condition | Status | Reason | Message | Meaning |", "|---|---|---|---|---|"]
        for row in self:
            message = "*(forwarded)*" if row.message == FORWARDED else f"`{row.message}`"
            lines.append(
                f"| {row.type} | {row.status} | `{row.reason}` | {message} | {row.meaning} |"
            )
        return "\n".join(lines) + "\n"
