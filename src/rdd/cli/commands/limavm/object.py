# SPDX-License-Identifier: Apache-2.0
"""Lookup, patch and wait for LimaVMs, shared by the commands of `rdd limavm`.

The conditions of a LimaVM carry no generation, `status.observedGeneration` does: a wait
ignores every state that was observed before the change.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.boot import boot_steps, report_download
from rdd.cli.framework.connection import conditions_of, connected, follow, segment
from rdd.cli.framework.errors import FAILED, REJECTED, TIMED_OUT, CommandError
from rdd.cli.framework.progress import Progress, shown
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.types import Call
from rdd.cli.framework.wording import plain

if TYPE_CHECKING:
    from rdd.client.blocking import Connection


@contextlib.contextmanager
def connection_for(call: Call) -> Iterator["Connection"]:
    """Connect to the control plane; a rejected request is exit code 1 here."""
    try:
        with connected(call) as connection:
            yield connection
    except CommandError as error:
        if _is_unserved(error.__cause__):
            raise CommandError(
                "the control plane does not serve LimaVMs: start it with the limavm controller "
                "(`rdd service start` without --controllers does)"
            ) from error
        if error.exit_code != REJECTED:
            raise
        raise CommandError(str(error), exit_code=FAILED) from error


def _is_unserved(cause: BaseException | None) -> bool:
    """Return whether the resource itself is not served, as opposed to a missing object."""
    from rdd.api.errors import NotFound

    return isinstance(cause, NotFound) and not (cause.details or {}).get("name")


def collection_of(namespace: str) -> str:
    return f"{names.LIMA_API}/namespaces/{segment(namespace)}/limavms"


def path_of(vm: Object) -> str:
    return f"{collection_of(vm['metadata']['namespace'])}/{vm['metadata']['name']}"


def find(connection: "Connection", name: str) -> Object:
    """Return the LimaVM with this name in any namespace. Raises CommandError."""
    found = find_or_none(connection, name)
    if found is None:
        listed = connection.get(f"{names.LIMA_API}/limavms").get("items") or []
        hint = did_you_mean(name, [vm["metadata"]["name"] for vm in listed])
        raise CommandError(
            f"LimaVM {quote(name)} not found in any namespace" + (hint and f"; {hint}")
        )
    return found


def find_or_none(connection: "Connection", name: str) -> Object | None:
    """Return the LimaVM with this name in any namespace; None without one."""
    from rdd.api.fieldselectors import escape

    query = {"fieldSelector": f"metadata.name={escape(name)}"}
    listed = connection.get(f"{names.LIMA_API}/limavms", query)
    items = listed.get("items") or []
    found: Object | None = items[0] if items else None
    return found


def patch(connection: "Connection", vm: Object, change: Object) -> Object:
    """Apply a merge patch and return the LimaVM."""
    from rdd.api.mediatypes import MERGE_PATCH

    patched: Object = connection.request(
        "PATCH", path_of(vm), body=change, content_type=MERGE_PATCH
    )
    return patched


def annotation(name: str) -> Object:
    """Return a patch that sets a request annotation to the current time."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"metadata": {"annotations": {name: now}}}


def trash_annotations(call: Call) -> Object:
    """Return the annotations of a reset; one that was to restore something is withdrawn."""
    skips = "true" if call.flags.truth("no-trash") else None
    return {names.SKIP_TRASH: skips, names.RESTORE_FROM: None}


def has_annotation(vm: Object, name: str) -> bool:
    """Return whether a requested action is still pending."""
    return name in (vm["metadata"].get("annotations") or {})


def starts(vm: Object) -> int:
    """Return how often the virtual machine has started."""
    return int((vm.get("status") or {}).get("restartCount") or 0)


def is_running(vm: Object) -> bool:
    """Return whether the machine is running with no restart pending."""
    needs_restart = (vm.get("status") or {}).get("restartNeeded")
    return conditions_of(vm).get(names.RUNNING, {}).get("status") == "True" and not needs_restart


def is_stopped(vm: Object) -> bool:
    """Return whether the machine is stopped; one that is starting or failed to start is not."""
    return conditions_of(vm).get(names.RUNNING, {}).get("reason") == "Stopped"


def covers(vm: Object, written: Object) -> bool:
    """Return whether the status covers a change, or a later one."""
    observed = (vm.get("status") or {}).get("observedGeneration") or 0
    return int(observed) >= int(written["metadata"]["generation"])


def unless_revoked(written: Object, is_met: Callable[[Object], bool]) -> Callable[[Object], bool]:
    """Return the condition, which raises CommandError once another client reverses the change.

    Without it, the wait would last until its timeout.
    """
    should_run = bool(written["spec"].get("running"))

    def check(vm: Object) -> bool:
        if bool(vm["spec"].get("running")) is not should_run:
            now = "stopped" if should_run else "started"
            name = quote(vm["metadata"]["name"])
            raise CommandError(f"LimaVM {name} was {now} by another client while waiting")
        return is_met(vm)

    return check


def change_and_wait(
    call: Call,
    name: str,
    change: Object,
    is_met: Callable[[Object, Object], bool],
    *,
    until: str,
    requested: str,
) -> None:
    """Change a LimaVM and, with `--wait`, wait for the change unless another client reverses it.

    `is_met` receives the LimaVM now and before the change; `requested` is reported without
    `--wait`. Raises CommandError.
    """
    with connection_for(call) as connection, shown(call) as progress:
        before = find(connection, name)
        if _failure(before) and (change.get("spec") or {}).get("running"):
            metadata = change.get("metadata") or {}
            retry = annotation(names.RETRY_REQUESTED)["metadata"]["annotations"]
            annotations = {**(metadata.get("annotations") or {}), **retry}
            change = {**change, "metadata": {**metadata, "annotations": annotations}}
        written = patch(connection, before, change)
        if not call.flags.truth("wait"):
            call.log.info(f"LimaVM {quote(name)} {requested}")
            return

        def is_done(vm: Object) -> bool:
            return covers(vm, written) and is_met(vm, before)

        wait(
            call,
            connection,
            written,
            unless_revoked(written, is_done),
            until=until,
            progress=progress,
        )


def deadline_of(call: Call) -> float | None:
    """Return the deadline of `--timeout` on the monotonic clock."""
    seconds = call.flags.seconds("timeout")
    return time.monotonic() + seconds if seconds > 0 else None


def wait(
    call: Call,
    connection: "Connection",
    vm: Object,
    is_met: Callable[[Object], bool],
    *,
    until: str,
    progress: Progress,
) -> Object:
    """Return the LimaVM once a condition is met; `until` names the condition in messages.

    Raises CommandError: exit code 4 on timeout, 1 if the LimaVM is deleted or has a failure
    that only the user can resolve. A failure from before the wait is stale until it is cleared.
    """
    metadata = vm["metadata"]
    name, uid = metadata["name"], metadata["uid"]
    logged: dict[str, str] = {}
    progress.phase(until)
    progress.watch(boot_steps(call, name))
    is_stale = bool(_failure(vm))
    is_download_shown = False
    collection = collection_of(metadata["namespace"])
    for found in follow(connection, collection, name, deadline=deadline_of(call)):
        if found is None or found["metadata"]["uid"] != uid:
            raise CommandError(f"LimaVM {quote(name)} was deleted while waiting")
        if is_met(found):
            return found
        _log_changes(call, found, logged, progress, until)
        created = conditions_of(found).get(names.CREATED, {})
        is_download_shown = is_download_shown or report_download(
            call, created.get("message", ""), progress
        )
        failure = _failure(found)
        is_stale = is_stale and bool(failure)
        if failure and not is_stale:
            raise CommandError(_explanation(found, failure))
    state = "".join(f"; {line}" for line in logged.values())
    state = state or "; it has no conditions: is the limavm controller running?"
    raise CommandError(
        f"waiting for LimaVM {quote(name)} to be {until}: context deadline exceeded{state}",
        exit_code=TIMED_OUT,
    )


def _failure(vm: Object) -> Object:
    """Return the failure that only the user can resolve; empty without one."""
    return (vm.get("status") or {}).get("failure") or {}


def _explanation(vm: Object, failure: Object) -> str:
    failed = (c for c in conditions_of(vm).values() if c["reason"].endswith("Failed"))
    message = plain(next((c["message"] for c in failed), failure["reason"]))
    remedy = failure.get("remedy", "")
    return f"{message}\nnext step: {remedy}" if remedy and remedy not in message else message


def _log_changes(
    call: Call, vm: Object, logged: dict[str, str], progress: Progress, until: str
) -> None:
    for kind, condition in conditions_of(vm).items():
        message = condition["message"]
        line = f"{kind}={condition['status']}: {message} ({condition['reason']})"
        if logged.get(kind) == line:
            continue
        logged[kind] = line
        if condition["reason"].endswith("Failed"):
            with progress.aside():
                call.log.warning(line)
        else:
            call.log.info(line)
        progress.phase(until, message.partition("\n")[0])
