# SPDX-License-Identifier: Apache-2.0
"""The shape of a condition. How conditions are kept is the runtime's business."""

from typing import Literal

from rdd.kinds import constraints
from rdd.kinds.struct import UNSET, Struct, field

_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

BY_TYPE = constraints.list_map("type")
"""Of a list of conditions: one per type."""


class Condition(Struct):
    """One aspect of an object's state: whether it holds, since when, and why."""

    type: str = field(
        "What the condition is about. In CamelCase, optionally with a DNS prefix.",
        schema={"maxLength": 316, "pattern": f"^({_PREFIX})?({_NAME})$"},
    )
    status: Literal["True", "False", "Unknown"] = field("Whether it holds.")
    reason: str = field(
        "The cause of the last change of status, for programs. One word, usually in CamelCase.",
        schema={
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
    )
    message: str = field(
        "The cause of the last change of status, for people. May be empty.",
        schema={"maxLength": 32768},
    )
    last_transition_time: str = field("When the status last changed.", schema=constraints.DATE_TIME)
    observed_generation: int = field(
        "The generation of the object the condition was computed from. "
        "If it is smaller than metadata.generation, the condition is out of date.",
        default=UNSET,
        schema=constraints.INT64 | {"minimum": 0},
    )
