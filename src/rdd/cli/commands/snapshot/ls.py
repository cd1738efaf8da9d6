# SPDX-License-Identifier: Apache-2.0
"""`rdd snapshot ls`: list the snapshots of the instance."""

import json

from rdd.api.types import Object
from rdd.base.sizes import binary
from rdd.cli.commands.engine.objects import age
from rdd.cli.commands.snapshot.object import COLLECTION, connection_for
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

_HEADERS = ("NAME", "SCOPE", "STATE", "SIZE", "CREATED", "DESCRIPTION")


def run(call: Call) -> int:
    as_json = is_json(call)
    with connection_for(call) as connection:
        found = connection.get(COLLECTION).get("items") or []
    found.sort(key=lambda obj: (obj.get("status") or {}).get("creationTime", "~"))
    if as_json:
        call.out.write(json.dumps([_record(obj) for obj in found]) + "\n")
        return 0
    write_table(call, [_HEADERS, *map(_row, found)])
    return 0


def _record(obj: Object) -> Object:
    status = obj.get("status") or {}
    return {
        "name": obj["metadata"]["name"],
        "scope": scope_text(obj),
        "state": _state(obj),
        "size": status.get("size", 0),
        "method": status.get("method", ""),
        "created": status.get("creationTime", ""),
        "description": obj["spec"].get("description", ""),
        "path": status.get("path", ""),
    }


def _row(obj: Object) -> tuple[str, ...]:
    record = _record(obj)
    return (
        record["name"],
        record["scope"],
        record["state"],
        binary(record["size"]) if record["size"] else "",
        age(record["created"]),
        record["description"],
    )


def scope_text(obj: Object) -> str:
    """Return a scope as `rdd snapshot create --scope` takes it."""
    scope = obj["spec"]["scope"]
    return "/".join(filter(None, (scope["kind"].lower(), scope.get("name", ""))))


def _state(obj: Object) -> str:
    return str(conditions_of(obj).get("Ready", {}).get("reason", "Pending"))
