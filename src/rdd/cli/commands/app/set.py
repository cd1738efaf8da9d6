# SPDX-License-Identifier: Apache-2.0
"""`rdd set PROPERTY=VALUE…`: change the settings of the App and wait for them to take effect.

The order of checks: the syntax of the arguments, before any request; names and values
against the schema, before any write; the write, which admission may reject; the wait.
"""

import os
from collections.abc import Sequence

from rdd.api.types import Object
from rdd.cli.commands.app.object import app_schema, validate, write
from rdd.cli.commands.app.properties import (
    Assignment,
    describe,
    parse_assignments,
    resolve,
    spec_schema,
)
from rdd.cli.framework.connection import connected
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    assignments = parse_assignments(call.args)
    if not call.flags.truth("dry-run"):
        apply(call, assignments)
        return 0
    with connected(call) as connection:
        schema = app_schema(connection)
        spec = resolve(assignments, schema)
        show(call, validate(call, connection, spec, schema))
    return 0


def apply(call: Call, assignments: Sequence[Assignment]) -> Object:
    """Write the assignments and, with `--wait`, wait for the App to settle."""
    from rdd.cli.commands.app.settling import wait_until_settled
    from rdd.cli.framework.progress import shown

    with shown(call) as progress:
        progress.phase("control plane")
        with connected(call) as connection:
            schema = app_schema(connection)
            spec = resolve(assignments, schema)
            app = write(call, connection, spec, schema)
            if call.flags.truth("wait"):
                app = wait_until_settled(
                    call,
                    connection,
                    app,
                    timeout_s=call.flags.seconds("timeout"),
                    progress=progress,
                )
    show(call, app)
    return app


def show(call: Call, app: Object) -> None:
    """Print the App as JSON with `-o json`. Raises CommandError."""
    from rdd.cli.framework.outputs import is_json

    if is_json(call):
        import json

        call.out.write(json.dumps(app) + "\n")


def help_details(call: Call) -> str:
    """Return the property table: of the running control plane, else of this version."""
    return describe(_schema_without_start(call), _terminal_width())


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


def _terminal_width() -> int:
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 80
