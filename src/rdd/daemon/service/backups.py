# SPDX-License-Identifier: Apache-2.0
"""Copies of the database: made on request, daily and before an upgrade; restored on request.

Every copy is read completely before it counts as one (`backup.verify`). Those that the daemon
makes on its own are in the directory `backups` of the instance; the oldest are removed when there
are more than `KEEP` or more than `KEEP_BYTES`, but never the newest one, nor the newest in an older
format. A restore keeps the database that it replaces, and continues behind its revision, so that no
revision is ever assigned to two different changes; a watch from before it ends with 410, because
the changes that it undoes are in no history.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.daemon.service import arguments, crash
from rdd.daemon.service.errors import ServiceError
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.instance import Instance

if TYPE_CHECKING:
    from rdd.daemon.service.lifecycle import Service
    from rdd.store.sqlite.backup import Verified

KEEP = 10
KEEP_BYTES = 1 << 30
_UNKNOWN_REVISIONS = 10**9  # more than a database that cannot be read any more has assigned
OF_OLD_FORMAT = "-format-"  # in the names of copies that `migration` makes


def existing(instance: Instance) -> list[Path]:
    """Return the copies in the instance's directory, the newest first: names begin with a time."""
    return sorted(instance.backup_dir.glob("[0-9]*.db"), reverse=True)


def usable(instance: Instance) -> Path | None:
    """Return the newest copy in a format that this version reads."""
    from rdd.store.contract import Damaged
    from rdd.store.sqlite import integrity

    for path in existing(instance):
        with contextlib.suppress(Damaged, OSError):
            integrity.inspect(path)
            return path
    return None


def advice(instance: Instance) -> str:
    """Return the sentence that names the newest copy; empty if there is none."""
    found = usable(instance)
    if found is None:
        return ""
    return f' The newest backup is "{found}": rdd service restore {found.name}.'


def create(
    instance: Instance, target: Path | None = None, *, reason: str = "manual"
) -> tuple[Path, "Verified"]:
    """Write a verified copy of the database, which may be in use. Raises ServiceError.

    Without a target, it is one of the copies that are pruned.
    """
    from rdd.store.contract import Damaged, NewerFormat, StoreError
    from rdd.store.sqlite import backup

    if reason == "manual":
        arguments.require_database(
            instance, "use etcdctl snapshot save, or copy it with rdd service copy-store --from"
        )
    if not instance.database.exists():
        raise ServiceError(f'"{instance.name}" control plane has no database yet')
    is_pruned = target is None
    if target is None:
        make_private_dir(instance.backup_dir)
        target = backup.automatic_path(instance.backup_dir, reason)
    elif target.exists():
        raise ServiceError(f'"{target}" exists; choose another name or remove it')
    try:
        backup.copy(instance.database, target)
        found = backup.verify(target)
    except NewerFormat as error:
        target.unlink(missing_ok=True)
        raise ServiceError(f"no backup was made: {error}") from error
    except Damaged as error:
        target.unlink(missing_ok=True)
        raise ServiceError(f"no backup was made, the copy is damaged: {error}") from error
    except StoreError as error:
        raise ServiceError(str(error)) from error
    if is_pruned:
        prune(instance)
    return target, found


def prune(instance: Instance, *, keep: int = KEEP, keep_bytes: int = KEEP_BYTES) -> None:
    """Remove the oldest copies beyond the limits.

    The newest one stays, and the newest in an older format: an older version needs that one.
    """
    total = 0
    copies = existing(instance)
    kept = {*copies[:1], *[path for path in copies if OF_OLD_FORMAT in path.name][:1]}
    for position, path in enumerate(copies):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
        if path not in kept and (position >= keep or total > keep_bytes):
            path.unlink(missing_ok=True)


def restore(
    service: "Service", name: str = "", *, wait: bool = True, timeout_s: float = 90.0
) -> None:
    """Replace the database by a copy; start the daemon again if it was running."""
    from rdd.daemon.service.lifecycle import STOP_TIMEOUT_S

    instance, report = service.instance, service.caller.report
    if not arguments.exists(instance):
        raise ServiceError(f"{service.title} does not exist; create it with `rdd service create`")
    arguments.require_database(
        instance, "use etcdctl snapshot restore, or rdd service copy-store --to another prefix"
    )
    source = find(instance, name)
    verified = _verify(source)
    was_running = service.running() is not None
    with service.stopped(timeout_s=STOP_TIMEOUT_S):
        crash.clear(instance)
        kept = _replace(instance, source)
    report(
        f'{service.title} has been restored from "{source}" ({verified.objects} objects)'
        + (f'; the database before is kept in "{kept}"' if kept else "")
    )
    if verified.damaged:
        report(f"{len(verified.damaged)} objects of the backup are damaged")
    if was_running:
        service.start(wait=wait, timeout_s=timeout_s)


def find(instance: Instance, name: str) -> Path:
    """Return the copy with a path or a name; the newest one without either."""
    if not name:
        found = usable(instance)
        if found is None:
            raise ServiceError(f'there is no backup in "{instance.backup_dir}"')
        return found
    own = instance.backup_dir / name
    path = own if os.sep not in name and own.exists() else Path(name)
    if not path.is_file():
        raise ServiceError(
            f'there is no backup "{name}", neither here nor in "{instance.backup_dir}"'
        )
    return path


def _verify(source: Path) -> "Verified":
    from rdd.store.contract import StoreError
    from rdd.store.sqlite import backup

    try:
        return backup.verify(source)
    except StoreError as error:
        raise ServiceError(f"nothing was changed: {error}") from error


def revision_after(instance: Instance, source: Path) -> int:
    """Return a revision that neither the database nor a copy which replaces it has exceeded."""
    from rdd.store.contract import StoreError
    from rdd.store.sqlite import backup

    try:
        revision = backup.current_revision(instance.database)
    except StoreError:
        revision = 0  # not readable: that may be why it is replaced
    return revision or backup.current_revision(source) + _UNKNOWN_REVISIONS


def _replace(instance: Instance, source: Path) -> Path | None:
    """Put a copy in the place of the database; return where the old one is kept."""
    from rdd.daemon.service.removal import back_up
    from rdd.store.contract import StoreError
    from rdd.store.sqlite import repair, schema

    revision = revision_after(instance, source)
    # A copy beside its destination first: if the disk is full, nothing has changed.
    partial = instance.dir / ".restore.partial"
    try:
        partial.unlink(missing_ok=True)
        with source.open("rb") as read, partial.open("xb") as write:
            os.fchmod(write.fileno(), 0o600)
            shutil.copyfileobj(read, write)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise HostError.from_os(f'copy "{source}"', error) from error
    kept = back_up(instance)
    try:
        make_private_dir(instance.database.parent)
        schema.publish(partial, instance.database)
        repair.raise_revision(instance.database, revision)
    except (OSError, HostError, StoreError) as error:
        if kept is not None:
            shutil.rmtree(instance.database.parent, ignore_errors=True)
            kept.rename(instance.database.parent)
        raise ServiceError(f'"{source}" was not restored: {error}') from error
    finally:
        partial.unlink(missing_ok=True)
    return kept
