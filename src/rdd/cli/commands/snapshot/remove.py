# SPDX-License-Identifier: Apache-2.0
"""`rdd snapshot rm`: remove snapshots with their content."""

import time
from typing import TYPE_CHECKING

from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.base.sizes import binary
from rdd.cli.commands.snapshot.ls import scope_text
from rdd.cli.commands.snapshot.object import COLLECTION, connection_for, find
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import conditions_of, follow
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.logline import Level
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

_TIMEOUT_S = 300.0


def run(call: Call) -> int:
    with connection_for(call) as connection:
        found = [find(connection, name) for name in dict.fromkeys(call.args)]
        lines = [
            f"  {obj['metadata']['name']} ({scope_text(obj)}, "
            f"{binary((obj.get('status') or {}).get('size', 0))})"
            for obj in found
        ]
        confirm(call, ["This removes these and cannot be undone:", *lines])
        for obj in found:
            connection.request("DELETE", f"{COLLECTION}/{obj['metadata']['name']}")
        for obj in found:
            with waiting(call, f"removing {obj['metadata']['name']}"):
                outcome = _removed(connection, obj)
            call.log.write(*outcome)
    return 0


def _removed(connection: "Connection", obj: Object) -> tuple[Level, str]:
    """Wait until a snapshot is gone or why it is not yet; return what to report."""
    name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
    deadline = time.monotonic() + _TIMEOUT_S
    for state in follow(connection, COLLECTION, name, deadline=deadline):
        if state is None or state["metadata"]["uid"] != uid:
            return "info", f"snapshot {quote(name)} has been removed"
        ready = conditions_of(state).get("Ready", {})
        if ready.get("reason") == "RemovalPending":
            return "warning", f"snapshot {quote(name)}: {ready['message']}"
    raise CommandError(f"snapshot {quote(name)} is still being removed", exit_code=TIMED_OUT)
