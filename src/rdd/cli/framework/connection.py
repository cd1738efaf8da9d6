# SPDX-License-Identifier: Apache-2.0
"""Connection of a command to the control plane, with the admin credentials of the instance.

A rejected request becomes the documented exit code (3 for an invalid request). `follow`
watches one object across dropped connections.
"""

import contextlib
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rdd.api.types import Object
from rdd.cli.framework.errors import FAILED, REJECTED, CommandError
from rdd.cli.framework.types import Call
from rdd.cli.framework.wording import plain

if TYPE_CHECKING:
    from rdd.cli.framework.progress import Progress
    from rdd.client.blocking import Connection
    from rdd.client.errors import ClientError
    from rdd.client.kubeconfig import ConnectionConfig

_REJECTIONS = (400, 403, 422)
_PAUSE_S = 0.2  # before a watch that broke is begun again


@contextlib.contextmanager
def connected(
    call: Call,
    *,
    start: bool = True,
    creates: bool = True,
    timeout_s: float | None = None,
    progress: "Progress | None" = None,
) -> Iterator["Connection"]:
    """Connect to the control plane; start it first unless `start` is false.

    With `creates=False` an instance that does not exist is an error. Errors of the server and
    of the connection become CommandError. `timeout_s` limits each wait for the server; a
    control plane that hangs never responds. `progress` shows a start of the control plane.
    """
    from rdd.api.errors import ApiError
    from rdd.client.blocking import Connection
    from rdd.client.errors import ClientError

    if not creates:
        from rdd.cli.framework.existing import require_instance

        require_instance(call)
    if start:
        from rdd.cli.framework.autostart import ensure_running

        ensure_running(call, progress)
    else:
        _refuse_stopped(call)
    try:
        connection = Connection(credentials(call), timeout_s=timeout_s, on_warning=_print_warning)
        try:
            yield connection
        finally:
            connection.close()
    except ApiError as error:
        code = REJECTED if error.code in _REJECTIONS else FAILED
        raise CommandError(plain(error.message), exit_code=code) from error
    except ClientError as error:
        raise CommandError(_unavailable(call, error) or str(error)) from error


def credentials(call: Call) -> "ConnectionConfig":
    """Return the credentials of the control plane. Raises CommandError with the fix."""
    from rdd.client.kubeconfig import KubeconfigError, load

    try:
        return load(call.instance.config)
    except KubeconfigError as error:
        fix = "`rdd service stop && rdd service start` writes it again"
        raise CommandError(_unavailable(call, error) or f"{error}; {fix}") from error


def _refuse_stopped(call: Call) -> None:
    """Raise CommandError if the process of the control plane is stopped by a signal."""
    from rdd.daemon.service import hang, record
    from rdd.daemon.service.errors import ServiceError

    daemon = record.read(call.instance)
    if daemon is not None:
        try:
            hang.check_not_stopped(call.instance, daemon)
        except ServiceError as error:
            raise CommandError(str(error)) from error


def _unavailable(call: Call, error: "ClientError") -> str:
    """Return why the control plane cannot respond now; empty if it could."""
    from rdd.client.errors import Unreachable
    from rdd.controllers.app.commands import rdd_command
    from rdd.daemon.service import hang, record
    from rdd.daemon.service.record import State

    daemon = record.read(call.instance)
    title = f'"{call.instance.name}" control plane'
    if daemon is None:
        return f"{title} is not running"
    if daemon.state == State.STOPPING:
        return f"{title} is stopping"
    if daemon.state != State.READY:
        return f"{title} is starting"
    if not isinstance(error, Unreachable):
        return ""
    return (
        f"{title} does not respond at {error.address}: {error}; {hang.process_text(daemon)}; "
        f"to find the cause: {rdd_command(call.instance, 'doctor')}"
    )


def _print_warning(text: str) -> None:
    sys.stderr.write(f"Warning: {text}\n")


def segment(name: str) -> str:
    """Return a name that the user gave as one segment of a path."""
    from urllib.parse import quote

    return quote(name, safe="")


def get_or_none(connection: "Connection", path: str) -> Object | None:
    """Return the object at a path; None if it does not exist."""
    from rdd.api.errors import ApiError

    try:
        found: Object = connection.get(path)
    except ApiError as error:
        if error.code == 404:
            return None
        raise
    return found


def follow(
    connection: "Connection",
    collection: str,
    name: str,
    *,
    deadline: float | None = None,
    query: Mapping[str, str] | None = None,
) -> Iterator[Object | None]:
    """Yield every state of one object from now on; None while it does not exist.

    Ends at the deadline (time.monotonic), otherwise never.
    """
    from rdd.api.errors import ApiError
    from rdd.client.errors import Unreachable

    selection = {"fieldSelector": f"metadata.name={name}", **(query or {})}
    while deadline is None or time.monotonic() < deadline:
        listed = connection.get(collection, selection)
        items = listed.get("items") or []
        yield items[0] if items else None
        version = (listed.get("metadata") or {}).get("resourceVersion", "")
        try:
            for event in connection.watch(
                collection, {**selection, "resourceVersion": version}, deadline=deadline
            ):
                yield None if event["type"] == "DELETED" else event["object"]
        except ApiError as error:
            if error.code != 410:  # expired resourceVersion: list again
                raise
        except Unreachable:
            # The server may be restarting; otherwise the next list fails.
            time.sleep(_PAUSE_S)


def conditions_of(obj: Object) -> dict[str, Object]:
    """Return the conditions of an object, by type."""
    found = (obj.get("status") or {}).get("conditions") or []
    return {condition["type"]: condition for condition in found}
