# SPDX-License-Identifier: Apache-2.0
"""The conditions of a Container, derived from its state.

`Running` is False while a container is paused, although its processes exist:
whoever waits for it to work wants to know. OOMKilled is Unknown unless the
engine was asked.
"""

from collections.abc import Sequence
from typing import Final, get_args

from rdd.api.types import Object
from rdd.kinds.container import ContainerState
from rdd.runtime.conditions import Condition, ConditionStatus, set_condition

STATES: Final[frozenset[str]] = frozenset(get_args(ContainerState))
UNKNOWN: Final = "unknown"

_BY_STATE = (
    ("Running", "running"),
    ("Paused", "paused"),
    ("Restarting", "restarting"),
    ("Dead", "dead"),
)


def container_conditions(
    present: Sequence[Object] | None, state: str, *, oom_killed: bool | None, now: str
) -> list[Object]:
    """The conditions for a state; those that do not change keep their transition time."""
    conditions: list[Object] = list(present or ())
    for type_, holds in _BY_STATE:
        is_so = state == holds
        conditions = set_condition(
            conditions,
            Condition(
                type_,
                "True" if is_so else "False",
                type_ if is_so else f"Not{type_}",
                f"Container is {state or UNKNOWN}",
            ),
            now=now,
        )
    status: ConditionStatus = "Unknown" if oom_killed is None else "True" if oom_killed else "False"
    return set_condition(
        conditions,
        Condition(
            "OOMKilled",
            status,
            "NotOOMKilled" if oom_killed is False else "OOMKilled",
            _OOM[oom_killed],
        ),
        now=now,
    )


_OOM = {
    None: "It is not known whether the container was killed for lack of memory",
    True: "The container was killed for lack of memory",
    False: "The container was not killed for lack of memory",
}


def changes(old: Sequence[Object] | None, new: Sequence[Object]) -> list[str]:
    """What to tell people about the conditions that have another status now."""
    before = {condition["type"]: condition["status"] for condition in old or ()}
    return [
        f"{condition['type']} changed from {before[condition['type']]} to {condition['status']}"
        for condition in new
        if before.get(condition["type"], condition["status"]) != condition["status"]
    ]
