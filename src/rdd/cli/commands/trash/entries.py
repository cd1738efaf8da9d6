# SPDX-License-Identifier: Apache-2.0
"""The entries of the trash as commands show them."""

from typing import TYPE_CHECKING

from rdd.base.gotext import quote
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.existing import is_named
from rdd.cli.framework.suggestions import did_you_mean
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.host.trash import Trash, TrashEntry


def trash(call: Call) -> "Trash":
    from rdd.host.trash import Trash

    return Trash(call.instance.trash_dirs)


def listed(call: Call) -> "list[TrashEntry]":
    """Return the entries of the named instance, otherwise all; too old ones are removed."""
    place = trash(call)
    place.purge()
    suffix = call.environment.suffix() if is_named(call) else ""
    return [entry for entry in place.entries() if suffix in ("", entry.instance)]


def find(call: Call, entry_id: str) -> "TrashEntry":
    """Return the entry with an id. Raises CommandError with the nearest one."""
    found = listed(call)
    for entry in found:
        if entry.id == entry_id:
            return entry
    hint = did_you_mean(entry_id, [entry.id for entry in found]) or (
        "`rdd trash ls` lists what is there" if found else "the trash is empty"
    )
    raise CommandError(f"{quote(entry_id)} is not in the trash; {hint}")


def content(entry: "TrashEntry") -> str:
    """Return what an entry contains, such as `database, machine rd` or `machine rd, settings`."""
    from rdd.vm.machine_trash import SETTINGS

    machines = [item.removeprefix("lima/") for item in entry.items if item.startswith("lima/")]
    parts = ["database"] if len(machines) < len(entry.items) else []
    settings = [SETTINGS] if entry.details.get(SETTINGS, "{}") != "{}" else []
    return ", ".join([*parts, *(f"machine {name}" for name in machines), *settings])
