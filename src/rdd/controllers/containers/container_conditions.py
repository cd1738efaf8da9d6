# SPDX-License-Identifier: Apache-2.0
"""The conditions of a Container, derived from its state.

`Running` is False while a container is paused, although its processes exist: a
client that waits for the container to work must not proceed. OOMKilled is Unknown
unless the state comes from the engine.
"""

from collections.abc import Sequence
from typing import Final, get_args

from rdd.api.types import Object
from rdd.kinds.container import ContainerState
from rdd.runtime.conditions import Condition

STATES: Final[frozenset[str]] = frozenset(get_args(ContainerState))
UNKNOWN: Final = "unknown"

_BY_STATE = (
    ("Running", "running"),
    ("Paused", "paused"),
    ("Restarting", "restarting"),
    ("Dead", "dead"),
)


def container_conditions(state: str, *, oom_killed: bool | None) -> list[Condition]:
    """Return the conditions of a state; `oom_killed` is None if unknown."""
    message = f"Container is {state or UNKNOWN}"
    conditions = [
        Condition(type_, "True", type_, message)
        if state == true_state
        else Condition(type_, "False", f"Not{type_}", message)
        for type_, true_state in _BY_STATE
    ]
    return [*conditions, _OOM_KILLED[oom_killed]]


_OOM_KILLED = {
    None: Condition(
        "OOMKilled",
        "Unknown",
        "OOMKilled",
        "It is unknown whether the container was killed for lack of memory",
    ),
    True: Condition(
        "OOMKilled", "True", "OOMKilled", "The container was killed for lack of memory"
    ),
    False: Condition(
        "OOMKilled", "False", "NotOOMKilled", "The container was not killed for lack of memory"
    ),
}


def condition_changes(old: Sequence[Object] | None, new: Sequence[Object]) -> list[str]:
    """Return one event note for each condition whose status changed."""
    before = {condition["type"]: condition["status"] for condition in old or ()}
    return [
        f"{condition['type']} changed from {before[condition['type']]} to {condition['status']}"
        for condition in new
        if before.get(condition["type"], condition["status"]) != condition["status"]
    ]
