# SPDX-License-Identifier: Apache-2.0
"""`rdd trash empty`: free the space of what was deleted."""

from rdd.cli.commands.preview import space
from rdd.cli.commands.trash.entries import content, find, listed, trash
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    # All are looked up first: a mistyped id removes nothing.
    entries = [find(call, entry_id) for entry_id in call.args] if call.args else listed(call)
    if not entries:
        call.log.info("the trash is empty")
        return 0
    confirm(
        call,
        [
            "This frees the space of these and cannot be undone:",
            *(f"  {entry.id}: {content(entry)}, {space([entry.path])}" for entry in entries),
        ],
    )
    place = trash(call)
    for number, entry in enumerate(entries):
        with waiting(call, f"removing {entry.id}") as progress:
            progress.detail(f"{100 * number // len(entries)} %")
            place.remove(entry)
        call.log.info(f"{entry.id} has been removed")
    return 0
