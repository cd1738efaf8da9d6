# SPDX-License-Identifier: Apache-2.0
"""Compute the JSON patch (RFC 6902) from one document to another.

Objects are compared member by member; a list that differs is replaced as a whole, because
positions do not identify its items.
"""

from typing import Any

from rdd.api.mergepatch import same

Operation = dict[str, Any]


def json_patch(old: dict[str, Any], new: dict[str, Any], path: str = "") -> list[Operation]:
    """Return the operations, removals first; empty if the documents are equal."""
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
