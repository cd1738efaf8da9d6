# SPDX-License-Identifier: Apache-2.0
"""`rdd service backup`: copy the database."""

from pathlib import Path

from rdd.cli.commands.service.calls import working
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.daemon.service import backups

    target = Path(call.args[0]) if call.args else None
    with working(call, "copying the database"):
        path, verified = backups.create(call.instance, target)
    call.log.info(f'"{path}" is a copy of the database with {verified.objects} objects')
    if verified.damaged:
        call.log.warning(
            f"{len(verified.damaged)} objects are damaged, also in the copy; "
            "see `rdd service quarantine ls`"
        )
    return 0
