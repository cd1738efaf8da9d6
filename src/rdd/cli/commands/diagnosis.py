# SPDX-License-Identifier: Apache-2.0
"""The findings of all checks at the moment of the call, for `rdd doctor` and `rdd status`.

Both commands show the same findings, with or without a daemon. A daemon that hangs must not
hang them: requests have a timeout.
"""

from typing import TYPE_CHECKING, NamedTuple

from rdd.api.types import Object
from rdd.cli.commands.app.object import APP
from rdd.cli.framework.connection import connected, get_or_none
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.existing import missing_instance
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.daemon.service.record import DaemonRecord

TIMEOUT_S = 5.0
"""Timeout of a request: longer than a loaded daemon needs, shorter than a user waits."""


class KnownApp(NamedTuple):
    """The App, or why it is not known."""

    app: Object | None
    problem: str = ""


def read_app(call: Call, daemon: "DaemonRecord | None") -> KnownApp:
    """Ask the control plane for the App."""
    if daemon is None:
        return KnownApp(None)
    from rdd.daemon.service.hang import is_stopped, process_text
    from rdd.daemon.service.record import State

    if daemon.state is State.READY and is_stopped(daemon):
        return KnownApp(None, process_text(daemon))  # no request would be answered
    try:
        with connected(call, start=False, timeout_s=TIMEOUT_S) as connection:
            return KnownApp(get_or_none(connection, APP))
    except CommandError as error:
        return KnownApp(None, str(error.__cause__ or error))


def _is_config_readable(call: Call) -> bool:
    from rdd.client.kubeconfig import KubeconfigError, load

    try:
        load(call.instance.config)
    except KubeconfigError:
        return False
    return True


def diagnose(call: Call, daemon: "DaemonRecord | None", known: KnownApp) -> list[Object]:
    """Run all checks and return their findings, those of the control plane first."""
    from pathlib import Path

    from rdd.controllers.app.commands import rdd_command
    from rdd.controllers.app.diagnostics import checks
    from rdd.controllers.app.diagnostics.findings import Facts
    from rdd.daemon.service import checks as service_checks
    from rdd.daemon.service.record import State

    instance, variables = call.instance, call.environment.variables
    facts = Facts(
        instance,
        Path(variables.get("HOME", "/")),
        variables,
        known.app,
        # Each check would wait for its own timeout. An unreadable kubeconfig is no hang.
        is_served=daemon is not None
        and daemon.state is State.READY
        and not (known.problem and _is_config_readable(call)),
    )
    found = {name: checks.run(name, facts) for name in checks.CHECKS}
    is_unreadable = found["certificates"].reason == "ConfigUnreadable"
    of_service = {
        service_checks.CONTROL_PLANE: service_checks.control_plane(
            instance,
            daemon,
            problem=known.problem,
            is_config_unreadable=is_unreadable,
            missing=missing_instance(call),
        ),
        service_checks.DATABASE: service_checks.database(instance, daemon),
    }
    every = {name: finding.to_data(name) for name, finding in {**of_service, **found}.items()}
    database = of_service[service_checks.DATABASE]
    if daemon is None and database.healthy == "False":
        # A start fails until the database is usable.
        starts = [rdd_command(instance, command) for command in ("start", "service start")]
        for entry in every.values():
            if entry["nextStep"] in starts:
                entry["nextStep"] = database.next_step if entry["healthy"] == "False" else ""
    return list(every.values())
