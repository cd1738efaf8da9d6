# SPDX-License-Identifier: Apache-2.0
"""A copy of the database before another version of the daemon opens it.

The version of the last daemon is in a file beside the database. A failed copy does not keep the
daemon from starting: the next daily one is made anyway, and a change of the format makes its own
copy, without which it does not happen (`rdd.store.sqlite.migration`).
"""

import logging

from rdd.daemon.service import backups
from rdd.daemon.service.errors import ServiceError
from rdd.host.errors import HostError
from rdd.host.files import read_text, write_atomically
from rdd.instance import Instance

log = logging.getLogger("rdd.daemon")


def back_up_before(instance: Instance, version: str) -> None:
    """Copy the database if another version was the last to open it."""
    try:
        last = (read_text(instance.version_file) or "").strip()
        if last in ("", version) or not instance.database.exists():
            return
        path, _ = backups.create(instance, reason="upgrade")
        log.info('version %s was used before; "%s" is a copy of the database', last, path)
    except (ServiceError, HostError) as error:
        log.warning("no backup before the upgrade: %s", error)


def record_version(instance: Instance, version: str) -> None:
    """Record which version has opened the database."""
    if not version or read_text(instance.version_file) == f"{version}\n":
        return
    try:
        write_atomically(instance.version_file, f"{version}\n", durable=False)
    except HostError as error:
        log.warning("%s", error)
