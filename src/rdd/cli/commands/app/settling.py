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
from rdd.cli.commands.app.machine import machines_path
from rdd.cli.commands.app.object import APP, APPS
from rdd.cli.commands.boot import boot_steps, report_download
from rdd.cli.framework.connection import conditions_of, follow, get_or_none
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.progress import Progress
from rdd.cli.framework.types import Call
from rdd.cli.framework.wording import plain

if TYPE_CHECKING:
    from rdd.client.blocking import Connection

NOT_INSTALLED = "NotInstalled"
TERMINAL_REASONS = ("NoDriver", "NotOurs", NOT_INSTALLED)
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


def wait_if_asked(
    call: Call,
    connection: "Connection",
    written: Object,
    progress: Progress,
    *,
    fetches: bool = False,
) -> Object:
    """Return the App: settled with --wait, within --timeout, else as written."""
    if not call.flags.truth("wait"):
        return written
    timeout_s = call.flags.seconds("timeout")
    return wait_until_settled(
        call, connection, written, timeout_s=timeout_s, progress=progress, fetches=fetches
    )


def wait_until_settled(
    call: Call,
    connection: "Connection",
    written: Object,
    *,
    timeout_s: float,
    progress: Progress,
    fetches: bool = False,
) -> Object:
    """Return the settled App. Raises CommandError, with exit code 4 on timeout.

    `fetches`: a missing program is being fetched, so that it is missing ends nothing.
    """
    generation = written["metadata"]["generation"]
    uid = written["metadata"]["uid"]
    deadline = time.monotonic() + timeout_s if timeout_s > 0 else None
    call.log.info("Waiting for App to settle")
    if _is_terminal(written) and not fetches:
        _recheck(connection, generation)
    logged: dict[str, tuple[str, str, str]] = {}
    progress.watch(boot_steps(call, names.APP_VM_NAME))
    is_download_shown = False
    chosen = (written.get("status") or {}).get("virtualMachineType")
    for app in follow(connection, APPS, names.APP_NAME, deadline=deadline):
        if app is None or app["metadata"]["uid"] != uid:
            raise CommandError("the App was deleted while waiting for it to settle")
        current = _current(app, generation)
        chosen = chosen or _report_choice(call, app, progress)
        is_download_shown = is_download_shown or report_download(
            call, current.get(names.CREATED, {}).get("message", ""), progress
        )
        _log_changes(call, current, logged, progress)
        progress.phase(*_phase(app, current))
        settled = current.get(names.SETTLED)
        if settled and settled["status"] == "True":
            return app
        if settled and _is_stuck(app, settled):
            is_missing = settled["reason"] == NOT_INSTALLED
            if is_missing and not fetches:
                with progress.aside():
                    fetches = _may_fetch(call, connection, app)
            if not (is_missing and fetches):
                raise CommandError(_explanation(app))
    raise CommandError(
        f"waiting for App to settle: context deadline exceeded{_state(logged)}",
        exit_code=TIMED_OUT,
    )


def _report_choice(call: Call, app: Object, progress: Progress) -> str:
    """Report the drivers that the selection passed over, once; return the selected one.

    A slower one is never used without a message.
    """
    status = app.get("status") or {}
    chosen = str(status.get("virtualMachineType") or "")
    for line in status.get("passedOver") or () if chosen else ():
        message = f"virtualMachine.type auto uses {chosen}, not {line}"
        with progress.aside():
            (call.log.warning if chosen == "qemu" else call.log.info)(message)
    return chosen


def _may_fetch(call: Call, connection: "Connection", app: Object) -> bool:
    """Ask on a terminal whether the missing program may be fetched, and write the answer."""
    from rdd.cli.framework.confirm import is_interactive

    if not is_interactive():
        return False
    from rdd.cli.commands.app.downloads import approve

    return approve(call, connection, app)


def _current(app: Object, generation: int) -> dict[str, Object]:
    """Return the conditions of this generation or a later one, by type."""
    return {
        kind: condition
        for kind, condition in conditions_of(app).items()
        if condition.get("observedGeneration", 0) >= generation
    }


def _is_terminal(app: Object) -> bool:
    settled = _current(app, app["metadata"]["generation"]).get(names.SETTLED)
    return settled is not None and _is_stuck(app, settled)


def _is_stuck(app: Object, settled: Object) -> bool:
    """Return whether only the user can help."""
    return settled["reason"] in TERMINAL_REASONS or bool((app.get("status") or {}).get("failure"))


def _explanation(app: Object) -> str:
    """Return why the App does not settle, and the command that helps."""
    message = plain(conditions_of(app)[names.SETTLED]["message"])
    remedy = ((app.get("status") or {}).get("failure") or {}).get("remedy", "")
    return f"{message}\nnext step: {remedy}" if remedy and remedy not in message else message


def _recheck(connection: "Connection", generation: int) -> None:
    """Request another reconcile and wait for the terminal reason to clear. Raises CommandError."""
    from rdd.api.mediatypes import MERGE_PATCH

    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = {"metadata": {"annotations": {_RECONCILE_REQUESTED: now}}}
    app = connection.request("PATCH", APP, body=body, content_type=MERGE_PATCH)
    machine = f"{machines_path(app)}/{names.APP_VM_NAME}"
    if get_or_none(connection, machine) is not None:
        retry = {"metadata": {"annotations": {names.RETRY_REQUESTED: now}}}
        connection.request("PATCH", machine, body=retry, content_type=MERGE_PATCH)
    message = ""
    for app in follow(
        connection, APPS, names.APP_NAME, deadline=time.monotonic() + _RECHECK_TIMEOUT_S
    ):
        if app is None or not _is_terminal(app) or app["metadata"]["generation"] > generation:
            return
        message = _explanation(app)
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
