# SPDX-License-Identifier: Apache-2.0
"""What a change of settings does: old and new values, and what it restarts."""

from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.settings import UNAFFECTED, changed_paths, text_of, value_at
from rdd.cli.commands.preview import engine_contents
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.tables import write_table
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection


def show_changes(call: Call, connection: "Connection", old: Object, new: Object) -> None:
    """Print the values that change and what the change restarts."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    paths = changed_paths(before, after)
    if not paths:
        call.out.write("Nothing changes.\n")
        return
    rows = [(p, text_of(value_at(before, p)), text_of(value_at(after, p))) for p in paths]
    write_table(call, [("PROPERTY", "OLD", "NEW"), *rows])
    call.out.write(_effect(call, connection, old, new, paths) + "\n")


def _effect(
    call: Call, connection: "Connection", old: Object, new: Object, paths: list[str]
) -> str:
    is_running = conditions_of(old).get(names.RUNNING, {}).get("status") == "True"
    if not is_running:
        return "Nothing restarts: the machine does not run."
    contents = engine_contents(connection, call.instance.lima_home / names.APP_VM_NAME)
    count = contents.running
    affected = (
        "its containers" if count is None else f"{count} running container" + "s" * (count != 1)
    )
    if not (new.get("spec") or {}).get("running"):
        return f"This stops the machine: {affected} stop."
    if all(path.startswith(UNAFFECTED) for path in paths):
        return "Nothing restarts."
    return f"This restarts the machine: {affected} stop."
