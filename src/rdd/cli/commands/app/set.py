# SPDX-License-Identifier: Apache-2.0
"""`rdd set PROPERTY=VALUE…`: change the settings of the App and wait for them to take effect.

The order of checks: the syntax of the arguments, before any request; names and values
against the schema, before any write; the write, which admission may reject; the wait.
"""

from collections.abc import Sequence

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.object import APP, app_schema, validate, write
from rdd.cli.commands.app.properties import (
    Assignment,
    describe,
    parse_assignments,
    resolve,
    spec_schema,
)
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.outputs import is_json
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    assignments = parse_assignments(call.args)
    if not call.flags.truth("dry-run"):
        apply(call, assignments, fetches=call.flags.truth("yes"))
        return 0
    with connected(call) as connection:
        schema = app_schema(connection)
        spec = resolve(assignments, schema)
        before = get_or_none(connection, APP)
        validated = validate(call, connection, spec, schema)
        if is_json(call):
            show(call, validated)
        else:
            from rdd.cli.commands.app.change_preview import show_changes

            show_changes(call, connection, before or get_or_none(connection, APP) or {}, validated)
    return 0


def apply(call: Call, assignments: Sequence[Assignment], *, fetches: bool = False) -> Object:
    """Write the assignments and, with `--wait`, wait for the App to settle.

    `fetches` is the consent to fetch a missing program, once.
    """
    from rdd.cli.commands.app.settling import wait_if_asked
    from rdd.cli.framework.progress import shown

    with shown(call) as progress:
        progress.phase("control plane")
        with connected(call, progress=progress) as connection:
            schema = app_schema(connection)
            spec = resolve(assignments, schema)
            consent = {names.DOWNLOADS_APPROVED: "true"} if fetches else {}
            app = write(call, connection, spec, schema, annotations=consent)
            app = wait_if_asked(call, connection, app, progress, fetches=fetches)
    show(call, app)
    return app


def show(call: Call, app: Object) -> None:
    """Print the App as JSON with `-o json`. Raises CommandError."""
    if is_json(call):
        import json

        call.out.write(json.dumps(app) + "\n")


def help_details(call: Call) -> str:
    """Return the property table: of the running control plane, else of this version."""
    return describe(_schema_without_start(call), call.environment.width(call.out))


def _schema_without_start(call: Call) -> "Object":
    from rdd.cli.commands.service.calls import service_for

    if service_for(call).running() is not None:
        from rdd.cli.framework.errors import CommandError

        try:
            with connected(call, start=False) as connection:
                return dict(app_schema(connection))
        except CommandError:
            pass  # it may just be starting or have no App: ours is the next best
    from rdd.kinds.app import App
    from rdd.kinds.crd import definition_of

    return dict(spec_schema(definition_of(App)))
