# SPDX-License-Identifier: Apache-2.0
"""Wait for the App to settle.

`Settled` must be true at the generation of the write or a later one; conditions of
earlier generations are stale and ignored. Every change of a current condition is
logged. A terminal reason, one that only the user can resolve, ends the wait at once.
If the App had a terminal reason before the write, the user may have resolved it
meanwhile: an annotation requests another reconcile, with a short timeout.
"""

import time
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.object import APP, APPS
from rdd.cli.framework.connection import conditions_of, follow
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.progress import Progress
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

TERMINAL_REASONS = ("NoDriver", "NotOurs", "NotInstalled")
"""Reasons that only the user can resolve."""

_RECONCILE_REQUESTED = f"{names.APP_GROUP}/lookAgainRequested"
_RECHECK_TIMEOUT_S = 3.0

_STEPS = (
    (names.CREATED, "virtual machine"),
    (names.RUNNING, "virtual machine"),
    (names.ENGINE_READY, "container engine"),
    (names.KUBERNETES_READY, "Kubernetes"),
)
"""The conditions of a start, in the order in which they become true."""


def wait_until_settled(
    call: Call,
    connection: "Connection",
    written: Object,
    *,
    timeout_s: float,
    progress: Progress,
) -> Object:
    """Return the settled App. Raises CommandError, with exit code 4 on timeout."""
    generation = written["metadata"]["generation"]
    uid = written["metadata"]["uid"]
    deadline = time.monotonic() + timeout_s if timeout_s > 0 else None
    call.log.info("Waiting for App to settle")
    if _is_terminal(written):
        _recheck(connection, generation)
    logged: dict[str, tuple[str, str, str]] = {}
    for app in follow(connection, APPS, names.APP_NAME, deadline=deadline):
        if app is None or app["metadata"]["uid"] != uid:
            raise CommandError("the App was deleted while waiting for it to settle")
        current = _current(app, generation)
        _log_changes(call, current, logged, progress)
        progress.phase(*_phase(app, current))
        settled = current.get(names.SETTLED)
        if settled and settled["status"] == "True":
            return app
        if settled and settled["reason"] in TERMINAL_REASONS:
            raise CommandError(settled["message"])
    raise CommandError(
        f"waiting for App to settle: context deadline exceeded{_state(logged)}",
        exit_code=TIMED_OUT,
    )


def _current(app: Object, generation: int) -> dict[str, Object]:
    """Return the conditions of this generation or a later one, by type."""
    return {
        kind: condition
        for kind, condition in conditions_of(app).items()
        if condition.get("observedGeneration", 0) >= generation
    }


def _is_terminal(app: Object) -> bool:
    settled = _current(app, app["metadata"]["generation"]).get(names.SETTLED, {})
    return settled.get("reason") in TERMINAL_REASONS


def _recheck(connection: "Connection", generation: int) -> None:
    """Request another reconcile and wait for the terminal reason to clear. Raises CommandError."""
    from rdd.client.resources import MERGE_PATCH

    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = {"metadata": {"annotations": {_RECONCILE_REQUESTED: now}}}
    connection.request("PATCH", APP, body=body, content_type=MERGE_PATCH)
    message = ""
    for app in follow(
        connection, APPS, names.APP_NAME, deadline=time.monotonic() + _RECHECK_TIMEOUT_S
    ):
        if app is None or not _is_terminal(app) or app["metadata"]["generation"] > generation:
            return
        message = conditions_of(app)[names.SETTLED]["message"]
    raise CommandError(message)


def _log_changes(
    call: Call,
    current: dict[str, Object],
    logged: dict[str, tuple[str, str, str]],
    progress: Progress,
) -> None:
    for kind, condition in current.items():
        state = (condition["status"], condition["reason"], condition["message"])
        if logged.get(kind) == state:
            continue
        logged[kind] = state
        status, reason, message = state
        line = f"{kind}={status}: {message} ({reason})"
        if reason.endswith("Failed") and kind in (names.CREATED, names.RUNNING):
            with progress.aside():
                call.log.warning(line)
        else:
            call.log.info(line)


def _phase(app: Object, current: dict[str, Object]) -> tuple[str, str]:
    """Return the name of the current phase and its condition message."""
    if app["spec"].get("running"):
        for kind, name in _STEPS:
            found = current.get(kind, {"status": "Unknown", "reason": "", "message": ""})
            if found["status"] != "True" and found["reason"] != "NotApplicable":
                return name, found["message"]
    else:
        running = conditions_of(app).get(names.RUNNING, {})
        if running.get("reason", "Stopped") != "Stopped":
            return "virtual machine", running["message"]
    return "settling", current.get(names.SETTLED, {}).get("message", "")


def _state(logged: dict[str, tuple[str, str, str]]) -> str:
    """Return the last observed condition, for the timeout message."""
    if names.SETTLED not in logged:
        return "; no condition of this change was seen: is the app controller running?"
    status, reason, message = logged[names.SETTLED]
    return f"; Settled={status}: {message} ({reason})"
