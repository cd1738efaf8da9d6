# SPDX-License-Identifier: Apache-2.0
"""The trash of a deleted or reset instance: its database and its machines, as one entry.

They belong together: the database has the objects of the machines. Tokens, keys, kubeconfigs and
logs are not kept; a restored instance gets new ones. The saved arguments are, unless they contain
a password.
"""

import json
from typing import TYPE_CHECKING

from rdd.daemon.service import arguments, record
from rdd.daemon.service.errors import ServiceError
from rdd.host.errors import HostError
from rdd.host.files import write_new
from rdd.host.trash import Trash, TrashEntry
from rdd.instance import DATABASE_DIR, Instance
from rdd.vm.instance_dir import InstanceDirectory, InvalidName, LimaHome
from rdd.vm.machine_trash import MachineTrash, item_of, secrets_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rdd.daemon.service.lifecycle import Service

INSTANCE = "instance"
_ARGUMENTS = "arguments"


def trash_of(instance: Instance) -> Trash:
    """Return the trash of the user, which all instances share."""
    return Trash(instance.trash_dirs)


def keep(instance: Instance) -> TrashEntry | None:
    """Move the database and the stopped machines to the trash; None if that is impossible.

    What is on another file system than the database stays for the caller. Raises HostError.
    """
    home = LimaHome(instance.lima_home)
    directories = [home.directory(name) for name in home.names()]
    complete = {found.name: found.path for found in directories if not found.is_incomplete()}
    return keep_directories(instance, instance.database.parent, complete)


def keep_directories(
    instance: Instance, database_dir: "Path", complete: "Mapping[str, Path]"
) -> TrashEntry | None:
    """Move a database and machines, wherever they are, to the trash like `keep`."""
    trash = trash_of(instance)
    database = {DATABASE_DIR: database_dir}
    machines = {item_of(name): path for name, path in complete.items()}
    secrets = [one for name, path in complete.items() for one in secrets_of(path, name)]
    details = _details(instance)

    def add(items: "dict[str, Path]", without: list[str]) -> TrashEntry | None:
        return trash.add(
            items,
            instance=instance.suffix,
            kind=INSTANCE,
            name=instance.suffix,
            without=without,
            details=details,
        )

    entry = add({**database, **machines}, secrets)
    if entry is None:  # not all on one file system
        entry = add(database, [])
        for name, path in complete.items():
            MachineTrash(trash, instance.suffix).keep(InstanceDirectory(path), name=name)
    trash.purge()
    return entry if entry is not None and entry.path.exists() else None


def restore(service: "Service", entry: TrashEntry, *, wait: bool = True) -> None:
    """Put the database and the machines of an entry back; what is there goes to the trash.

    The daemon is started again if it was running. Raises ServiceError, HostError.
    """
    from rdd.daemon.service.lifecycle import STOP_TIMEOUT_S
    from rdd.daemon.service.machines import end_all

    instance, report = service.instance, service.caller.report
    was_running = service.running() is not None
    targets = _targets(instance, entry)
    with service.stopped(timeout_s=STOP_TIMEOUT_S):
        problems = end_all(instance, service.caller.variables)
        if problems:
            raise ServiceError(f"nothing was restored: {'; '.join(problems)}")
        record.clear(instance)
        replaced = keep(instance)
        in_use = [str(path) for path in targets.values() if path.exists()]
        if in_use:
            raise ServiceError(
                f'nothing was restored: "{in_use[0]}" cannot be moved to the trash; '
                "free some disk space and try again"
            )
        _restore_arguments(instance, entry)
        trash_of(instance).take(entry, targets)
    report(
        f"{service.title} has been restored"
        + (f"; what it replaced is in the trash as {replaced.id}" if replaced else "")
    )
    if was_running:
        service.start(wait=wait)


def _targets(instance: Instance, entry: TrashEntry) -> "dict[str, Path]":
    targets = {}
    for item in entry.items:
        if item == DATABASE_DIR:
            targets[item] = instance.database.parent
        elif item.startswith("lima/"):
            try:
                found = LimaHome(instance.lima_home).directory(item.removeprefix("lima/"))
            except InvalidName as error:
                raise ServiceError(f"{entry.id} is damaged: {error}") from error
            targets[item] = found.path
    return targets


def _details(instance: Instance) -> dict[str, str]:
    try:
        text = json.dumps(arguments.load(instance))
    except (ServiceError, HostError):
        return {}
    return {} if "@" in text else {_ARGUMENTS: text}


def _restore_arguments(instance: Instance, entry: TrashEntry) -> None:
    if arguments.exists(instance):
        return
    text = entry.details.get(_ARGUMENTS, "")
    if text:
        write_new(instance.args_file, json.dumps(json.loads(text), indent=2) + "\n")
    else:
        arguments.create(instance)
