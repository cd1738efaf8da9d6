# SPDX-License-Identifier: Apache-2.0
"""Restart and reset of the App's virtual machine.

Both are requested by an annotation on the LimaVM. A request is complete when the
annotation is gone and, for a machine that should run, `restartCount` has increased. The
App has settled again when its conditions cover that start.
"""

import time
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.object import APP, APPS
from rdd.cli.commands.boot import boot_steps
from rdd.cli.framework.connection import conditions_of, connected, follow, get_or_none
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.existing import is_named, missing_instance
from rdd.cli.framework.progress import Progress
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection


def machines_path(app: Object) -> str:
    namespace = (app.get("spec") or {}).get("namespace") or names.DEFAULT_NAMESPACE
    return f"{names.LIMA_API}/namespaces/{namespace}/limavms"


def has_app(call: Call) -> bool:
    """Return whether the App exists, without creating an instance for the answer.

    Raises CommandError for an instance that the user named and that does not exist.
    """
    if problem := missing_instance(call):
        if is_named(call):
            raise CommandError(problem)
        return False
    with connected(call) as connection:
        return get_or_none(connection, APP) is not None


def existing_app(connection: "Connection") -> Object:
    """Return the App. Raises CommandError if it does not exist."""
    app = get_or_none(connection, APP)
    if app is None:
        raise CommandError("App does not exist; `rdd start` creates it")
    return app


def goes(call: Call, connection: "Connection", what: str, kept: str) -> list[str]:
    """Return the lines that show what a deletion of the App's machine removes.

    `kept` is what the trash can keep.
    """
    from rdd.cli.commands.preview import engine_contents, fate, space

    machine = call.instance.lima_home / names.APP_VM_NAME
    contents = engine_contents(connection, machine)
    return [
        f"This deletes {what}: {contents.text()}, {space([machine])}.",
        fate(call, [machine], kept),
    ]


def set_skip_trash(connection: "Connection", app: Object, *, skips: bool) -> None:
    """Make the deletion of the App keep nothing, and free the space of its machine at once.

    Without `skips` an annotation that an earlier, rejected deletion left is removed.
    """
    from rdd.api.mediatypes import MERGE_PATCH

    for path in (f"{machines_path(app)}/{names.APP_VM_NAME}", APP):
        found = get_or_none(connection, path)
        if found is not None and skips != (
            names.SKIP_TRASH in (found["metadata"].get("annotations") or {})
        ):
            change = {"metadata": {"annotations": {names.SKIP_TRASH: "true" if skips else None}}}
            connection.request("PATCH", path, body=change, content_type=MERGE_PATCH)


def request(
    call: Call,
    connection: "Connection",
    app: Object,
    annotation: str,
    progress: Progress,
    annotations: Object | None = None,
) -> None:
    """Request a restart or a reset from the App's LimaVM; wait for it with `--wait`.

    `annotations` are written with the request.
    """
    from rdd.api.mediatypes import MERGE_PATCH

    collection = machines_path(app)
    machine = get_or_none(connection, f"{collection}/{names.APP_VM_NAME}")
    if machine is None:
        raise CommandError("the App has no virtual machine yet; `rdd status` shows why")
    before = _restarts(machine)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    connection.request(
        "PATCH",
        f"{collection}/{names.APP_VM_NAME}",
        body={"metadata": {"annotations": {annotation: now, **(annotations or {})}}},
        content_type=MERGE_PATCH,
    )
    if not call.flags.truth("wait"):
        return
    seconds = call.flags.seconds("timeout")
    deadline = time.monotonic() + seconds if seconds > 0 else None
    progress.phase("virtual machine")
    progress.watch(boot_steps(call, names.APP_VM_NAME))
    least = before + 1 if app["spec"].get("running") else 0
    machine = _until_done(connection, collection, annotation, least, deadline, progress)
    progress.phase("settling")
    _until_settled(connection, machine, deadline, progress)


def _until_done(
    connection: "Connection",
    collection: str,
    annotation: str,
    least: int,
    deadline: float | None,
    progress: Progress,
) -> Object:
    seen = ""
    for machine in follow(connection, collection, names.APP_VM_NAME, deadline=deadline):
        if machine is None:
            raise CommandError(f'LimaVM "{names.APP_VM_NAME}" was deleted while waiting')
        is_processed = annotation not in (machine["metadata"].get("annotations") or {})
        is_created = conditions_of(machine).get(names.CREATED, {}).get("status") == "True"
        if is_processed and is_created and _restarts(machine) >= least:
            return machine
        seen = _message(machine, names.RUNNING)
        progress.phase("virtual machine", seen)
    raise CommandError(
        f"waiting for the virtual machine: context deadline exceeded; {seen}", exit_code=TIMED_OUT
    )


def _until_settled(
    connection: "Connection", machine: Object, deadline: float | None, progress: Progress
) -> None:
    started = conditions_of(machine).get(names.RUNNING, {}).get("lastTransitionTime", "")
    seen = ""
    for app in follow(connection, APPS, names.APP_NAME, deadline=deadline):
        if app is None:
            raise CommandError("the App was deleted while waiting for it to settle")
        conditions = conditions_of(app)
        running = conditions.get(names.RUNNING, {})
        settled = conditions.get(names.SETTLED, {})
        # RFC 3339 in UTC compares as text.
        if running.get("lastTransitionTime", "") >= started and settled.get("status") == "True":
            return
        seen = _message(app, names.SETTLED)
        progress.phase("settling", seen)
    raise CommandError(
        f"waiting for App to settle: context deadline exceeded; {seen}", exit_code=TIMED_OUT
    )


def _restarts(machine: Object) -> int:
    return int((machine.get("status") or {}).get("restartCount") or 0)


def _message(obj: Object, kind: str) -> str:
    return str(conditions_of(obj).get(kind, {}).get("message", ""))
