# SPDX-License-Identifier: Apache-2.0
"""snapshot: saves and restores the App and machines.

reconciler   what is pending for a Snapshot; adoption of content on disk
saving       from a Snapshot to content on disk
restoring    from content on disk to machines and settings
disk_snapshots  those inside of disks, made by `rdd limavm snapshot`
holds        keeps machines stopped meanwhile
reasons      the conditions Ready and Restored

It is in the group of the machines, whose files it reads and exchanges.
"""

from collections.abc import Iterable

from rdd.api import names
from rdd.api.types import Object
from rdd.controllers.environment import ControllerEnvironment
from rdd.controllers.lima.snapshot.holds import snapshot_of
from rdd.controllers.lima.snapshot.reconciler import SnapshotReconciler, VmChanged
from rdd.kinds.catalog import crds_of
from rdd.kinds.limavm import LimaVM
from rdd.kinds.snapshot import Snapshot
from rdd.runtime import (
    Context,
    Controller,
    ObjectKey,
    annotations_changed,
    any_of,
    finalizers_changed,
    generation_changed,
    maps,
    watch,
)

__all__ = ["snapshot"]


def snapshot(env: ControllerEnvironment) -> Controller:
    """Return the controller of Snapshots."""

    def reconciler(context: Context) -> SnapshotReconciler:
        return SnapshotReconciler(context, env)

    return Controller(
        "snapshot",
        reconciler,
        sources=(
            watch(Snapshot, any_of(generation_changed, annotations_changed, finalizers_changed)),
            maps(LimaVM, _changed_vm),
        ),
        definitions=crds_of("snapshot"),
        workers=2,
    )


def _changed_vm(vm: Object) -> Iterable[VmChanged]:
    yield VmChanged(snapshot_of(LimaVM.of(vm)))
    if names.DISK_SNAPSHOTS_CHANGED in (vm["metadata"].get("annotations") or {}):
        yield VmChanged("", ObjectKey.of(vm))
