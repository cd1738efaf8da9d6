# SPDX-License-Identifier: Apache-2.0
"""The schema of a condition; `rdd.api.conditions` sets conditions."""

from typing import Literal

from rdd.kinds import constraints
from rdd.kinds.struct import UNSET, Struct, field

_PREFIX = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

BY_TYPE = constraints.list_map("type")
"""The schema of a list of conditions: one per type."""


class Condition(Struct):
    """One aspect of an object's state: its status, the time of the last change and the cause."""

    type: str = field(
        "Type of the condition. In CamelCase, optionally with a DNS prefix.",
        schema={"maxLength": 316, "pattern": f"^({_PREFIX})?({_NAME})$"},
    )
    status: Literal["True", "False", "Unknown"] = field("Status of the condition.")
    reason: str = field(
        "The cause of the last change of status, machine-readable. One word in CamelCase.",
        schema={
            "maxLength": 1024,
            "minLength": 1,
            "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
    )
    message: str = field(
        "The cause of the last change of status, human-readable. May be empty.",
        schema={"maxLength": 32768},
    )
    last_transition_time: str = field(
        "Time of the last change of status.", schema=constraints.DATE_TIME
    )
    observed_generation: int = field(
        "The generation of the object the condition was computed from. "
        "If it is smaller than metadata.generation, the condition is out of date.",
        default=UNSET,
        schema=constraints.INT64 | {"minimum": 0},
    )


def condition_path(kind: str, member: str) -> str:
    """Return the JSON path of a member of a condition, for columns."""
    return f'.status.conditions[?(@.type=="{kind}")].{member}'
