# SPDX-License-Identifier: Apache-2.0
"""`rdd trash ls`: list what was deleted and can be restored."""

import json
import time

from rdd.base.sizes import binary
from rdd.cli.commands.trash.entries import content, listed
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call
from rdd.host.usage.disk import usage

_HEADERS = ("ID", "INSTANCE", "CONTENT", "SIZE", "DELETED", "GONE AFTER")


def run(call: Call) -> int:
    as_json = is_json(call)
    found = []
    for entry in listed(call):
        used = usage([entry.path])
        found.append(
            {
                "id": entry.id,
                "instance": entry.instance,
                "kind": entry.kind,
                "name": entry.name,
                "content": content(entry),
                "diskBytes": used.bytes,
                "isDiskComplete": used.is_complete,
                "deleted": _time(entry.deleted_at),
                "expires": _time(entry.expires_at),
                "path": str(entry.path),
            }
        )
    if as_json:
        call.out.write(json.dumps(found) + "\n")
        return 0
    rows = [
        (
            one["id"],
            one["instance"],
            one["content"],
            ("" if one["isDiskComplete"] else "≥ ") + binary(int(str(one["diskBytes"]))),
            one["deleted"],
            one["expires"],
        )
        for one in found
    ]
    write_table(call, [_HEADERS, *([str(cell) for cell in row] for row in rows)])
    return 0


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
