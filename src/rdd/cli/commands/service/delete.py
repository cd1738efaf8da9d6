# SPDX-License-Identifier: Apache-2.0
"""`rdd service delete`: stop the daemon and delete the instance."""

from pathlib import Path
from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.cli.commands.service.calls import working
from rdd.cli.commands.service.preview import goes
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.vm.snapshots.store import StoredSnapshot


def run(call: Call) -> int:
    from rdd.daemon.service import arguments
    from rdd.daemon.service.removal import delete

    if arguments.exists(call.instance):
        confirm(call, goes(call, f'the instance "{call.instance.suffix}" with all its data'))
        if call.flags.truth("keep-snapshots"):
            _export(call)
    with working(call, "deleting the instance") as service:
        kept = delete(
            service,
            timeout_s=call.flags.seconds("timeout"),
            use_trash=not call.flags.truth("no-trash"),
        )
    if kept is not None:
        call.log.debug(f"`rdd trash restore {kept.id}` restores it")
    return 0


def _export(call: Call) -> None:
    """Export all snapshots. Raises CommandError, before anything was deleted."""
    from rdd.cli.commands.snapshot.object import store_of
    from rdd.cli.commands.snapshot.transfer import export
    from rdd.host.errors import HostError

    store = store_of(call)
    targets: list[tuple[StoredSnapshot, Path]] = []
    for name in store.names():
        try:  # one that cannot be exported must not be deleted, either
            entry = store.find(name)
        except HostError as error:
            raise CommandError(f"{error}; nothing was deleted") from error
        if entry is not None:
            targets.append((entry, Path.cwd() / f"{call.instance.name}-{name}.rdd"))
    if existing := [path for _, path in targets if path.exists()]:
        raise CommandError(f"{quote(str(existing[0]))} exists; nothing was deleted")
    for entry, target in targets:
        try:
            with shown(call) as progress:
                progress.phase(f"exporting {entry.name}")
                export(store, entry, target, progress)
        except HostError as error:
            raise CommandError(f"{error}; nothing was deleted") from error
        call.out.write(f"{target}\n")
