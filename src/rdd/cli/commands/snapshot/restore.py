# SPDX-License-Identifier: Apache-2.0
"""`rdd snapshot restore`: put a saved state back."""

import uuid
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.snapshot import object as snapshots
from rdd.cli.commands.snapshot.continuing import wait_continued
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection
    from rdd.vm.snapshots.store import StoredSnapshot


def run(call: Call) -> int:
    (name,) = call.args
    new_name = call.flags.text("as")
    if (stored := _stored_instance(call, name)) is not None:
        return _restore_instance(call, stored, new_name)
    with snapshots.connection_for(call) as connection:
        found = snapshots.find(connection, name)
        confirm(call, [_effect(found, new_name)])
        with shown(call) as progress:
            progress.phase("restoring")
            request = uuid.uuid4().hex
            annotations = {
                names.SNAPSHOT_RESTORE: request,
                names.SNAPSHOT_RESTORE_AS: new_name or None,
            }
            found = _patch(connection, name, {"metadata": {"annotations": annotations}})
            if not call.flags.truth("wait"):
                return 0
            done = snapshots.wait_restored(call, connection, found, request, progress)
            saved = found["status"].get("machines") or ()
            machines = [new_name] if new_name and saved else saved
            wait_continued(call, connection, machines, progress)
    call.log.info(f"snapshot {quote(name)}: {done}")
    return 0


def _stored_instance(call: Call, name: str) -> "StoredSnapshot | None":
    """Return the snapshot of a whole instance; it needs no control plane that works."""
    from rdd.host.errors import HostError

    try:
        stored = snapshots.store_of(call).find(name)
    except HostError as error:
        raise CommandError(str(error)) from error
    is_instance = stored is not None and stored.manifest.scope.get("kind") == "Instance"
    return stored if is_instance else None


def _restore_instance(call: Call, stored: "StoredSnapshot", new_name: str) -> int:
    from rdd.cli.commands.service.calls import service_for, translated
    from rdd.daemon.service import arguments
    from rdd.daemon.service.instance_restore import restore

    if new_name:
        raise CommandError(
            f"{quote(stored.name)} is of a whole instance, which has no other name: export it, and "
            "import it into another instance with --instance"
        )
    if not arguments.exists(call.instance):
        arguments.create(call.instance)
    confirm(
        call,
        [
            "This stops the control plane and all machines, and replaces the database with all "
            "objects, and the machines. What is there now goes to the trash."
        ],
    )
    with translated(), shown(call) as progress:
        progress.phase("restoring")
        is_waiting = call.flags.truth("wait")
        service = service_for(call, progress)
        was_running = service.running() is not None
        restore(service, stored, wait=is_waiting, progress=progress.detail)
        if was_running and is_waiting:
            with snapshots.connection_for(call) as connection:
                wait_continued(call, connection, stored.manifest.machines, progress)
    return 0


def _patch(connection: "Connection", name: str, change: Object) -> Object:
    from rdd.api.mediatypes import MERGE_PATCH

    patched: Object = connection.request(
        "PATCH", f"{snapshots.COLLECTION}/{name}", body=change, content_type=MERGE_PATCH
    )
    return patched


def _effect(found: Object, new_name: str) -> str:
    scope, method = found["spec"]["scope"], (found.get("status") or {}).get("method", "")
    if scope["kind"] == "Namespace":
        name = quote(new_name or scope.get("name", ""))
        return f"This replaces the saved objects of the namespace {name}; others are kept."
    if new_name:
        return f"This creates the machine {quote(new_name)}."
    what = {
        "App": "the settings and the machine of the App, with its containers and volumes,",
        "LimaVM": f"the machine {quote(scope.get('name', ''))}",
    }.get(scope["kind"], "everything")
    kept = "is lost" if "qcow2" in method else "goes to the trash"
    return f"This stops and replaces {what}. What is there now {kept}."
