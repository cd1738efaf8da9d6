# SPDX-License-Identifier: Apache-2.0
"""Restore a snapshot of a whole instance: its database and its machines.

Both are prepared beside those that are there, as far as possible while the daemon runs. Then one
file that is written atomically decides. Before it, everything is as it was; after it, only renames
are left, which can be repeated. After a crash in between, whoever acquires the lock of the instance
next completes them: the daemon at its start, or a command that needs it stopped.

    NAME              the database or a machine
    .NAME.prepared    that of the snapshot
    .NAME.replaced    the one before, until it is in the trash
"""

import asyncio
import contextlib
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.daemon.service import arguments, record
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.machines import end_all
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, sync_directory, write_atomically
from rdd.host.locks import FileLock
from rdd.instance import DATABASE_DIR, DATABASE_FILE, PREPARED, Instance
from rdd.vm.instance_dir import InvalidName, LimaHome
from rdd.vm.snapshots import machine
from rdd.vm.snapshots.store import ORIGIN_FILE, StoredSnapshot

if TYPE_CHECKING:
    from rdd.daemon.service.lifecycle import Service

_RUNNING = (f"/registry/{names.APP_GROUP}/apps/", f"/registry/{names.LIMA_GROUP}/limavms/")
_LOCK = ".restore.lock"
_MACHINES = "machines"
_REPLACED = ".replaced"

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class _Item:
    """The database or a machine."""

    present: Path
    is_saved: bool = True
    """Whether the snapshot has it; otherwise it goes."""

    @property
    def prepared(self) -> Path:
        return self.present.with_name(f".{self.present.name}{PREPARED}")

    @property
    def replaced(self) -> Path:
        return self.present.with_name(f".{self.present.name}{_REPLACED}")

    def exchange(self) -> None:
        """Put what is prepared into its place. Idempotent. Raises OSError."""
        if self.prepared.exists():
            if self.present.exists():
                self.present.rename(self.replaced)
            self.prepared.rename(self.present)
        elif not self.is_saved and self.present.exists():
            self.present.rename(self.replaced)


def restore(
    service: "Service",
    stored: StoredSnapshot,
    *,
    wait: bool = True,
    progress: Report = lambda _: None,
) -> None:
    """Replace the database and all machines; start the daemon again if it was running.

    Raises ServiceError or HostError, and then everything is as it was before.
    """
    from rdd.daemon.service.lifecycle import STOP_TIMEOUT_S

    instance, caller = service.instance, service.caller
    if not arguments.exists(instance):
        raise ServiceError(f"{service.title} does not exist; create it with `rdd service create`")
    saved = list(_items(instance, list(stored.manifest.machines)))
    _check(stored)
    make_private_dir(instance.lima_home)
    with _only_restore(instance):
        was_running = service.running() is not None
        # What is inside of the disk of a machine can only be read while nothing writes to it.
        is_early = "qcow2" not in stored.manifest.method
        try:
            if is_early:
                _prepare(instance, stored, saved, progress)
            progress("stopping the control plane and its machines")
            with service.stopped(timeout_s=STOP_TIMEOUT_S):
                problems = end_all(instance, caller.variables)
                if problems:
                    raise ServiceError("; ".join(problems))
                if not is_early:
                    _prepare(instance, stored, saved, progress)
                _continue_behind(instance, saved[0].prepared / DATABASE_FILE)
                record.clear(instance)
                _decide(instance, stored)
                complete(instance)
        except (ServiceError, HostError) as error:
            if not instance.restore_journal.exists():
                _discard(saved)
                if was_running:
                    service.start(wait=wait)
                raise ServiceError(f"nothing was restored: {error}") from error
            raise
    caller.report(f"{service.title} has been restored from {stored.name}")
    if was_running:
        service.start(wait=wait)


def complete(instance: Instance) -> None:
    """Do what a restore has decided, after a crash, too. The lock of the instance is held.

    Raises HostError.
    """
    journal = _read(instance)
    if journal is None:
        _sweep(instance)
        return
    saved = journal[_MACHINES]
    others = [name for name in LimaHome(instance.lima_home).names() if name not in saved]
    items = [*_items(instance, saved), *_items(instance, others, is_saved=False)]
    try:
        for item in items:
            item.exchange()
        for directory in {item.present.parent for item in items}:
            sync_directory(directory)
    except OSError as error:
        raise HostError.from_os(f'complete the restore of "{instance.name}"', error) from error
    _keep_replaced(instance)
    remove(instance.restore_journal)


def _items(instance: Instance, machines: list[str], *, is_saved: bool = True) -> Iterator[_Item]:
    home = LimaHome(instance.lima_home)
    if is_saved:
        yield _Item(instance.database.parent)
    for name in machines:
        try:
            yield _Item(home.directory(name).path, is_saved)
        except InvalidName as error:
            raise ServiceError(f"the snapshot is damaged: {error}") from error


def _check(stored: StoredSnapshot) -> None:
    """Refuse what cannot be restored here, before anything is stopped."""
    from rdd.store.contract import StoreError
    from rdd.store.sqlite import backup

    for saved in stored.manifest.machines.values():
        machine.check_mode(saved)
    try:
        backup.verify(stored.path / DATABASE_DIR / DATABASE_FILE)
    except StoreError as error:
        raise ServiceError(f"nothing was restored: {error}") from error


@contextlib.contextmanager
def _only_restore(instance: Instance) -> Iterator[None]:
    lock = FileLock.try_acquire(instance.dir / _LOCK)
    if lock is None:
        raise ServiceError("another command restores this instance; try again when it has ended")
    with lock:
        try:
            yield
        finally:
            remove(lock.path)


def _prepare(
    instance: Instance, stored: StoredSnapshot, items: list[_Item], progress: Report
) -> None:
    _discard(items)
    database, *machines = items
    try:
        database.prepared.mkdir(mode=0o700)
        source = stored.path / DATABASE_DIR / DATABASE_FILE
        target = database.prepared / DATABASE_FILE
        shutil.copyfile(source, target)
        target.chmod(0o600)
    except OSError as error:
        raise HostError.from_os(f'copy the database of "{stored.name}"', error) from error
    if read_text(source.with_name(ORIGIN_FILE)) != str(instance.lima_home):
        asyncio.run(_halt(target))
    for item in machines:
        name = item.present.name
        progress(f"copying machine {name}")
        record_ = stored.manifest.machines[name]
        asyncio.run(
            machine.materialize(stored.machine(name), record_, item.prepared, report=lambda _: None)
        )


async def _halt(database: Path) -> None:
    """Let nothing run yet: in another instance, templates have the paths of the first one.

    The App writes its template before it starts its machine, unless that should run already.
    """
    from rdd.apiserver.state import codec
    from rdd.store.contract import Put, StoreError
    from rdd.store.sqlite.store import SqliteStore

    try:
        store = await SqliteStore.open(database)
        try:
            for prefix in _RUNNING:
                for found in (await store.scan(prefix)).records:
                    obj = codec.decode(found.value)
                    obj["spec"]["running"] = False
                    value = codec.encode(obj, tag=codec.tag_of(found.value))
                    await store.commit([Put(found.key, value)])
        finally:
            await store.close()
    except StoreError as error:
        raise ServiceError(str(error)) from error


def _continue_behind(instance: Instance, database: Path) -> None:
    """Let no revision be assigned twice: clients remember those of the database before."""
    from rdd.daemon.service.backups import revision_after
    from rdd.store.contract import StoreError
    from rdd.store.sqlite import repair

    try:
        repair.raise_revision(database, revision_after(instance, database))
        sync_directory(database.parent)
    except (StoreError, OSError) as error:
        raise ServiceError(str(error)) from error


def _decide(instance: Instance, stored: StoredSnapshot) -> None:
    journal = {"snapshot": stored.name, _MACHINES: sorted(stored.manifest.machines)}
    write_atomically(instance.restore_journal, json.dumps(journal) + "\n")


def _read(instance: Instance) -> "dict[str, list[str]] | None":
    text = read_text(instance.restore_journal)
    if text is None:
        return None
    try:
        return {_MACHINES: [str(name) for name in json.loads(text)[_MACHINES]]}
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f'"{instance.restore_journal}" is damaged: {error}') from error


def _keep_replaced(instance: Instance) -> None:
    """Move what was replaced to the trash; remove what cannot be kept."""
    from rdd.daemon.service import trash

    database = _Item(instance.database.parent).replaced
    found = instance.lima_home.glob(f".*{_REPLACED}")
    machines = {path.name[1:].removesuffix(_REPLACED): path for path in found}
    with contextlib.suppress(HostError):
        trash.keep_directories(instance, database, machines)
    for path in (database, *machines.values()):
        with contextlib.suppress(HostError):  # the next restore tries again
            machine.discard(path)


def _discard(items: list[_Item]) -> None:
    for item in reversed(items):  # the database last: `sweep` looks for it
        with contextlib.suppress(HostError):
            machine.discard(item.prepared)


def _sweep(instance: Instance) -> None:
    """Remove what an interrupted restore had prepared."""
    prepared = _Item(instance.database.parent).prepared
    if not prepared.exists():
        return
    lock = FileLock.try_acquire(instance.dir / _LOCK)
    if lock is None:
        return  # it is being prepared
    with lock, contextlib.suppress(HostError):
        for path in (*instance.lima_home.glob(f".*{PREPARED}"), prepared):
            machine.discard(path)
        remove(lock.path)
