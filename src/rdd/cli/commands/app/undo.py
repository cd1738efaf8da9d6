# SPDX-License-Identifier: Apache-2.0
"""`rdd undo`: undo the last change of the App's spec by an ordinary write.

The write is conditional on the state in which the values were compared, so that it never
overwrites a later change. It is recorded like any other: a second `rdd undo` repeats
what the first one took back.
"""

from rdd.api.types import Object
from rdd.cli.commands.app.change_preview import show_changes
from rdd.cli.commands.app.machine import existing_app
from rdd.cli.commands.app.object import patch
from rdd.cli.commands.app.set import show
from rdd.cli.commands.app.settings import recorded_changes, text_of, value_at, with_value
from rdd.cli.framework.connection import connected
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    as_json = is_json(call)
    with connected(call, creates=False) as connection:
        app = existing_app(connection)
        changes = recorded_changes(connection)
        if not changes:
            raise CommandError("no change is recorded; nothing to undo")
        spec = reverse(changes[-1], app)
        is_dry = call.flags.truth("dry-run")
        version = app["metadata"]["resourceVersion"]
        query = {"dryRun": "All"} if is_dry else None
        if not is_dry and not as_json:
            tried = patch(connection, spec, {"dryRun": "All"}, version=version)
            show_changes(call, connection, app, tried)
        written = patch(connection, spec, query, version=version)
        if is_dry and not as_json:
            show_changes(call, connection, app, written)
        if not is_dry:
            from rdd.cli.commands.app.settling import wait_if_asked

            with shown(call) as progress:
                written = wait_if_asked(call, connection, written, progress)
    show(call, written)
    return 0


def reverse(change: Object, app: Object) -> Object:
    """Return the partial spec that takes a change back. Raises CommandError."""
    if change.get("operation") == "create":
        raise CommandError("the last change created the App; `rdd delete` deletes it")
    spec: Object = {}
    differing = []
    for field in change["fields"]:
        path, masked = field["field"], field.get("masked") or ()
        present = value_at(app.get("spec"), path)
        if "old" in masked:
            raise CommandError(
                f"the old value of {path} contains credentials or is too long and was not "
                f"recorded; set it with `rdd set {path}=VALUE`"
            )
        if "new" not in masked and present != field["new"]:
            differing.append(
                f"{path} is {text_of(present)} now, and the change was from "
                f"{text_of(field['old'])} to {text_of(field['new'])}"
            )
        with_value(spec, path, None if field.get("wasDefault") else field["old"])
    if differing:
        raise CommandError("; ".join(differing) + "; nothing was changed")
    return spec
