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
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection


def run(call: Call) -> int:
    (name,) = call.args
    new_name = call.flags.text("as")
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
