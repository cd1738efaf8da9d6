# SPDX-License-Identifier: Apache-2.0
"""`rdd service copy-store`: copy all objects between the instance's database and etcd."""

import asyncio

from rdd.cli.commands.service.calls import translated
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import waiting
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.sharing.etcd import copy_store

    source, target = call.flags.text("from"), call.flags.text("to")
    if bool(source) == bool(target):
        raise CommandError("rdd service copy-store needs either --from or --to, an etcd:// address")
    database = call.instance.database
    if source and database.exists():
        raise CommandError(f'"{database}" exists; `rdd service reset` moves it away')
    if target and not database.exists():
        raise CommandError(f'there is no database "{database}" to copy')

    def report(done: int, total: int) -> None:
        call.log.info(f"copied {done} of {total} objects")
        shown.detail(f"{100 * done // max(total, 1)} %, {done} of {total}")

    with translated(), waiting(call, "copying objects") as shown:
        count, place = asyncio.run(
            copy_store(call.instance, source=source, target=target, progress=report)
        )
    call.log.info(f"copied {count} objects to {place} and compared them")
    return 0
