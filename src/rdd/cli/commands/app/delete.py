# SPDX-License-Identifier: Apache-2.0
"""`rdd delete`: delete the App, its virtual machine and everything in it.

Keeps the control plane; `rdd service delete` removes that.
"""

import time

from rdd.api import names
from rdd.cli.commands.app.machine import existing_app, goes, has_app, set_skip_trash
from rdd.cli.commands.app.object import APP, APPS
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import conditions_of, connected, follow
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

_KEPT = "the settings and the machine"


def run(call: Call) -> int:
    as_json = is_json(call)
    if not has_app(call):
        call.log.info("App does not exist; nothing to delete")
        return 0
    with connected(call) as connection:
        app = existing_app(connection)
        confirm(call, goes(call, connection, "the App with its settings and its machine", _KEPT))
        with shown(call) as progress:
            progress.phase("deleting")
            uid = app["metadata"]["uid"]
            options = {"preconditions": {"uid": uid}}
            skips = call.flags.truth("no-trash")
            if skips:  # a rejected deletion must not leave the annotation
                connection.request("DELETE", APP, body={**options, "dryRun": ["All"]})
            set_skip_trash(connection, app, skips=skips)
            connection.request("DELETE", APP, body=options)
            call.log.info("App is being deleted")
            if not call.flags.truth("wait"):
                return 0
            seconds = call.flags.seconds("timeout")
            deadline = time.monotonic() + seconds if seconds > 0 else None
            seen = ""
            for found in follow(connection, APPS, names.APP_NAME, deadline=deadline):
                if found is None or found["metadata"]["uid"] != uid:
                    break
                seen = str(conditions_of(found).get(names.RUNNING, {}).get("message", ""))
                progress.phase("deleting", seen)
            else:
                raise CommandError(
                    f"waiting for the App to be deleted: context deadline exceeded; {seen}",
                    exit_code=TIMED_OUT,
                )
    call.log.info("App deleted")
    if as_json:
        call.out.write('{"deleted":true}\n')
    return 0
