# SPDX-License-Identifier: Apache-2.0
"""What the deletion or reset of a whole instance removes, with or without a daemon."""

from rdd.api import names
from rdd.cli.commands.preview import engine_contents, fate, machine_paths, space
from rdd.cli.framework.connection import connected
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call

_TIMEOUT_S = 2.0  # a control plane that hangs must not prevent its deletion


def goes(call: Call, what: str) -> list[str]:
    """Return the lines that show what a deletion of the instance removes."""
    from rdd.daemon.service import record
    from rdd.vm.snapshots.store import SnapshotStore

    instance = call.instance
    machine = instance.lima_home / names.APP_VM_NAME
    contents = engine_contents(None, machine)
    if record.read(instance) is not None:
        try:
            with connected(call, start=False, timeout_s=_TIMEOUT_S) as connection:
                contents = engine_contents(connection, machine)
        except CommandError:
            pass  # what is on disk is the next best
    machines = machine_paths(instance)
    others = sorted(name for name in machines if name != names.APP_VM_NAME)
    used = space((instance.dir, instance.short_dir, instance.log_dir))
    lines = [f"This deletes {what}: {contents.text()}, {used}."]
    if others:
        lines.append(f"It also deletes these machines: {', '.join(others)}.")
    if snapshots := SnapshotStore(instance.snapshot_dirs).names():
        used = space(instance.snapshot_dirs)
        kept_by = (
            "they are exported first"
            if call.flags.truth("keep-snapshots")
            else "the trash does not keep them; --keep-snapshots exports them"
        )
        named = ", ".join(snapshots)
        lines.append(f"It also deletes these snapshots, {used}: {named}; {kept_by}.")
    kept = [instance.database.parent, *machines.values()]
    lines.append(fate(call, kept, "the database and the machines"))
    return lines
