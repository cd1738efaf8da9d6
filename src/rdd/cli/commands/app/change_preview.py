# SPDX-License-Identifier: Apache-2.0
"""What a change of settings does: old and new values, and what it restarts."""

from dataclasses import replace
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.settings import (
    DEFAULTED,
    changed_paths,
    is_defaulted,
    text_of,
    value_at,
)
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
    # A default of this host that is set explicitly is enforced from then on.
    fixed = [p for p in DEFAULTED if is_defaulted(old, p) and not is_defaulted(new, p)]
    paths += [path for path in fixed if path not in paths]
    if not paths:
        call.out.write("Nothing changes.\n")
        return
    rows = [(p, _text(old, before, p), text_of(value_at(after, p))) for p in paths]
    write_table(call, [("PROPERTY", "OLD", "NEW"), *rows])
    call.out.write(_effect(call, connection, old, new) + "\n")


def _text(app: Object, spec: Object, path: str) -> str:
    return text_of(value_at(spec, path)) + " (default)" * is_defaulted(app, path)


def _effect(call: Call, connection: "Connection", old: Object, new: Object) -> str:
    is_running = conditions_of(old).get(names.RUNNING, {}).get("status") == "True"
    if not is_running:
        return "Nothing restarts: the machine does not run."
    contents = engine_contents(connection, call.instance.lima_home / names.APP_VM_NAME)
    count = contents.running
    affected = ": its containers stop"
    if count is not None:
        noun = "container stops" if count == 1 else "containers stop"
        affected = f": {count} running {noun}" if count else "; no container runs"
    if not (new.get("spec") or {}).get("running"):
        return f"This stops the machine{affected}."
    if not _restarts(call, old, new):
        return "Nothing restarts."
    return f"This restarts the machine{affected}."


def _restarts(call: Call, old: Object, new: Object) -> bool:
    """Return whether the machine gets another template."""
    from rdd.controllers.app.app import template
    from rdd.kinds.app import App

    before, after = App.of(old), App.of(new)
    if before.spec.kubernetes.enabled != after.spec.kubernetes.enabled:
        return True  # its port, which the template has, is known later
    driver, variables = before.status.virtual_machine_type, call.environment.variables
    hashes = set()
    for app in (before, after):
        inputs = template.inputs_of(
            app, driver, call.instance, home=call.instance.home, environment=variables
        )
        if driver == "qemu":  # the disk of its running guest grows
            inputs = replace(inputs, machine=replace(inputs.machine, disk=0))
        hashes.add(template.spec_hash(inputs))
    return len(hashes) > 1
