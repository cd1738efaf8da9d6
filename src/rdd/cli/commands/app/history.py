# SPDX-License-Identifier: Apache-2.0
"""`rdd history`: the accepted changes of the App's spec, the newest first."""

import json

from rdd.cli.commands.app.settings import recorded_changes, text_of
from rdd.cli.framework.connection import connected
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

_HEADERS = ("TIME", "USER", "MANAGER", "PROPERTY", "OLD", "NEW")


def run(call: Call) -> int:
    as_json = is_json(call)
    with connected(call, creates=False) as connection:
        changes = recorded_changes(connection)[::-1]
    if as_json:
        call.out.write(json.dumps(changes) + "\n")
        return 0
    rows = [
        (
            change["time"],
            change["user"],
            change["manager"] or "-",
            field["field"],
            text_of(field["old"]),
            text_of(field["new"]),
        )
        for change in changes
        for field in change["fields"]
    ]
    write_table(call, [_HEADERS, *rows])
    return 0
