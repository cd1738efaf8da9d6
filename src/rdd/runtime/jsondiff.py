# SPDX-License-Identifier: Apache-2.0
"""The JSON patch (RFC 6902) that turns one document into another.

Objects are compared member by member; a list that differs is replaced as a
whole, because positions say little about what was meant.
"""

from typing import Any

from rdd.api.mergepatch import same

Operation = dict[str, Any]


def json_patch(old: dict[str, Any], new: dict[str, Any], path: str = "") -> list[Operation]:
    """The operations, removals first; empty if the two are the same."""
    operations: list[Operation] = [
        {"op": "remove", "path": f"{path}/{_escaped(member)}"}
        for member in old
        if member not in new
    ]
    for member, value in new.items():
        where = f"{path}/{_escaped(member)}"
        if member not in old:
            operations.append({"op": "add", "path": where, "value": value})
            continue
        before = old[member]
        if isinstance(before, dict) and isinstance(value, dict):
            operations += json_patch(before, value, where)
        elif not same(before, value):
            operations.append({"op": "replace", "path": where, "value": value})
    return operations


def _escaped(member: str) -> str:
    return member.replace("~", "~0").replace("/", "~1")
