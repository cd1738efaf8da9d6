# SPDX-License-Identifier: Apache-2.0
"""`rdd snapshot export` and `rdd snapshot import`: move snapshots between computers."""

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.base.sizes import binary
from rdd.cli.commands.snapshot import object as snapshots
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import Progress, shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.vm.snapshots.archive import Archive
    from rdd.vm.snapshots.manifest import Manifest
    from rdd.vm.snapshots.store import SnapshotStore, StoredSnapshot


def run(call: Call) -> int:
    from rdd.host.errors import HostError

    try:
        return _import(call) if call.path[-1] == "import" else _export(call)
    except HostError as error:
        raise CommandError(str(error)) from error


def _export(call: Call) -> int:
    name, target = call.args[0], Path(call.args[1]).absolute()
    found = snapshots.stored(call, name)
    if target.exists():
        raise CommandError(f"{quote(str(target))} exists; choose another name or remove it")
    with shown(call) as progress:
        progress.phase("exporting")
        export(snapshots.store_of(call), found, target, progress)
    call.log.info(f"snapshot {quote(name)} has been exported: {binary(target.stat().st_size)}")
    call.out.write(f"{target}\n")
    return 0


def export(
    store: "SnapshotStore", found: "StoredSnapshot", target: Path, progress: Progress
) -> None:
    """Write the archive of a snapshot. Raises HostError."""
    from rdd.vm.snapshots import archive

    def report(size: int) -> None:
        progress.detail(f"{binary(size)} written")

    if "qcow2" not in found.manifest.method:
        archive.write(found.path, found.manifest, target, report=report)
        return
    # The state is inside of a disk that is in use: a copy has only that state.
    partial = store.begin(f"export-{found.name}"[:63].rstrip(".-"), found.path)
    try:
        manifest = asyncio.run(_independent(found, partial))
        archive.write(partial, manifest, target, report=report)
    finally:
        store.discard(partial)


async def _independent(found: "StoredSnapshot", target: Path) -> "Manifest":
    from rdd.vm.snapshots.machine import materialize
    from rdd.vm.snapshots.store import MACHINES_DIR

    records = {
        name: await materialize(
            found.machine(name), record, target / MACHINES_DIR / name, report=lambda _: None
        )
        for name, record in found.manifest.machines.items()
    }
    return replace(found.manifest, machines=records)


def _import(call: Call) -> int:
    from rdd.vm.snapshots.archive import Archive
    from rdd.vm.snapshots.store import SnapshotExists, check_name

    archive = Archive(Path(call.args[0]).absolute())
    name = call.flags.text("name") or archive.manifest.name
    check_name(name)
    store = snapshots.store_of(call)
    if store.path_of(name) is not None:
        raise SnapshotExists(f'there is a snapshot "{name}" already; --name gives it another one')
    with snapshots.connection_for(call, creates=True) as connection, shown(call) as progress:
        progress.phase("importing")
        found = _unpack(call, archive, store, name)
        manifest = found.manifest
        body = snapshots.body_of(name, dict(manifest.scope), manifest.description, manifest.id)
        try:
            made = connection.request("POST", snapshots.COLLECTION, body=body)
        except BaseException:
            store.remove(name)
            raise
        snapshots.wait_ready(call, connection, made, progress)
    call.log.info(f"snapshot {quote(name)} has been imported: {binary(manifest.size_bytes)}")
    return 0


def _unpack(call: Call, archive: "Archive", store: "SnapshotStore", name: str) -> "StoredSnapshot":
    from rdd.host.errors import HostError

    near = call.instance.lima_home if archive.manifest.machines else call.instance.dir
    archive.verify()
    partial = store.begin(name, near)
    try:
        free = shutil.disk_usage(partial).free
        if archive.manifest.size_bytes > free:
            raise HostError(
                f"the snapshot needs {binary(archive.manifest.size_bytes)}, "
                f"{binary(free)} are free; nothing was imported"
            )
        archive.unpack(partial)
        return store.complete(partial, replace(archive.manifest, name=name))
    except BaseException:
        store.discard(partial)
        raise
