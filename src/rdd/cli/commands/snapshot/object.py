# SPDX-License-Identifier: Apache-2.0
"""Snapshots as resources, and on disk."""

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.framework.connection import conditions_of, connected, follow, get_or_none
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.progress import Progress
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection
    from rdd.vm.snapshots.store import SnapshotStore, StoredSnapshot

COLLECTION = f"{names.RDD_API}/snapshots"


@contextlib.contextmanager
def connection_for(call: Call, *, creates: bool = False) -> Iterator["Connection"]:
    """Connect to the control plane, which must run the snapshot controller.

    An instance that does not exist has no snapshots: it is an error, except for an import.
    """
    with connected(call, creates=creates) as connection:
        if get_or_none(connection, COLLECTION) is None:
            raise CommandError(
                "the control plane does not serve Snapshots: start it with the snapshot controller "
                "(`rdd service start` without --controllers does)"
            )
        yield connection


def store_of(call: Call) -> "SnapshotStore":
    from rdd.vm.snapshots.store import SnapshotStore

    return SnapshotStore(call.instance.snapshot_dirs)


def stored(call: Call, name: str) -> "StoredSnapshot":
    """Return a complete snapshot on disk. Raises CommandError."""
    from rdd.host.errors import HostError

    store = store_of(call)
    try:
        found = store.find(name)
    except HostError as error:
        raise CommandError(str(error)) from error
    if found is None:
        hint = did_you_mean(name, [entry.name for entry in store.entries()])
        raise CommandError(
            f"there is no snapshot {quote(name)}; {hint or '`rdd snapshot ls` lists all'}"
        )
    return found


def body_of(name: str, scope: Object, description: str, content: str = "") -> Object:
    """Return the body of a new Snapshot; `content` is the id of what is on disk already."""
    metadata: Object = {"name": name}
    if content:
        metadata["annotations"] = {names.SNAPSHOT_CONTENT: content}
    spec: Object = {"scope": scope}
    if description:
        spec["description"] = description
    return {
        "apiVersion": f"{names.RDD_GROUP}/{names.VERSION}",
        "kind": "Snapshot",
        "metadata": metadata,
        "spec": spec,
    }


def find(connection: "Connection", name: str) -> Object:
    """Return a Snapshot. Raises CommandError."""
    listed = {obj["metadata"]["name"]: obj for obj in connection.get(COLLECTION).get("items") or ()}
    found: Object | None = listed.get(name)
    if found is None:
        hint = did_you_mean(name, listed)
        raise CommandError(
            f"there is no snapshot {quote(name)}; {hint or '`rdd snapshot ls` lists all'}"
        )
    return found


def wait_ready(call: Call, connection: "Connection", made: Object, progress: Progress) -> Object:
    """Return a Snapshot once its content is complete. Raises CommandError if it failed."""
    name = made["metadata"]["name"]
    for found in _states(call, connection, made, progress):
        ready = conditions_of(found).get("Ready", {})
        if ready.get("status") == "True":
            return found
        if ready.get("reason") not in (None, "Creating"):
            connection.request("DELETE", f"{COLLECTION}/{name}")
            raise CommandError(f"snapshot {quote(name)} was not created: {ready.get('message')}")
    raise CommandError(
        f"snapshot {quote(name)} is not complete yet: context deadline exceeded",
        exit_code=TIMED_OUT,
    )


def wait_restored(
    call: Call, connection: "Connection", found: Object, request: str, progress: Progress
) -> str:
    """Return what a restore has done. Raises CommandError if it failed."""
    name = found["metadata"]["name"]
    for state in _states(call, connection, found, progress):
        restored = conditions_of(state).get("Restored", {})
        is_handled = (state.get("status") or {}).get("restoreRequest") == request
        if is_handled and restored.get("reason") == "RestoreFailed":
            raise CommandError(f"nothing was restored: {restored.get('message')}")
        if is_handled and restored.get("status") == "True":
            return str(restored.get("message", ""))
    raise CommandError(
        f"snapshot {quote(name)} is not restored yet: context deadline exceeded",
        exit_code=TIMED_OUT,
    )


def _states(
    call: Call, connection: "Connection", obj: Object, progress: Progress
) -> Iterator[Object]:
    """Yield the states of a Snapshot until the timeout. Raises CommandError if it is deleted."""
    name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
    seconds = call.flags.seconds("timeout")
    deadline = time.monotonic() + seconds if seconds > 0 else None
    for state in follow(connection, COLLECTION, name, deadline=deadline):
        if state is None or state["metadata"]["uid"] != uid:
            raise CommandError(f"snapshot {quote(name)} was deleted while waiting")
        yield state
        if text := (state.get("status") or {}).get("progress"):
            progress.detail(text)
