# SPDX-License-Identifier: Apache-2.0
"""The daily copy of the database, and the removal of old entries of the trash.

The age of the newest copy decides, not the uptime of the daemon: one that is started every
morning makes a copy, too. The check runs once an hour, because a sleeping computer does not
advance the clock of the event loop.
"""

import asyncio
import logging
import time

from rdd.daemon.service import backups
from rdd.daemon.service.errors import ServiceError
from rdd.host.errors import HostError
from rdd.host.trash import Trash
from rdd.instance import Instance
from rdd.store.contract import Store

log = logging.getLogger("rdd.daemon")

DAY_S = 86_400.0
CHECK_S = 3_600.0
FIRST_CHECK_S = 60.0
"""The start of a daemon is busy enough."""


async def run(
    instance: Instance,
    store: Store,
    *,
    has_database: bool = True,
    first_check_s: float = FIRST_CHECK_S,
) -> None:
    """Copy the database whenever the newest copy is a day old, until cancelled.

    Without one (etcd has its own backups) only the trash is emptied.
    """
    pause_s, backed_up = first_check_s, -1
    while True:
        await asyncio.sleep(pause_s)
        pause_s = CHECK_S
        await _purge_trash(instance)
        if not has_database or store.revision == backed_up or not is_due(instance):
            continue
        revision = store.revision
        try:
            path, _ = await asyncio.to_thread(backups.create, instance, reason="daily")
        except (ServiceError, HostError) as error:
            log.warning("the daily backup failed: %s", error)
            continue
        backed_up = revision
        log.info('"%s" is a copy of the database', path)


async def _purge_trash(instance: Instance) -> None:
    try:
        removed = await asyncio.to_thread(Trash(instance.trash_dirs).purge)
    except HostError as error:
        log.warning("the trash is not emptied: %s", error)
        return
    for entry in removed:
        log.info("%s is gone from the trash", entry.id)


def is_due(instance: Instance) -> bool:
    """Return whether the newest copy is missing, a day old or of the future."""
    found = backups.existing(instance)
    if not found:
        return True
    try:
        age_s = time.time() - found[0].stat().st_mtime
    except OSError:
        return True
    return not 0 <= age_s < DAY_S
