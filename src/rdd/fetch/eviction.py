# SPDX-License-Identifier: Apache-2.0
"""Remove what the cache no longer needs: the longest unused entries first.

Entries that are checked out (pinned, or linked into a machine) are never removed. Incomplete
downloads count as used until they are a week old, because the next attempt resumes them.

Directories beside the files, such as the releases of Kubernetes, are evicted with them
(`Directory`). Their links to entries end with them, so they do not count as a use of those.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rdd.fetch.cache import Cache, Entry
from rdd.host.errors import HostError
from rdd.host.locks import FileLock

MAX_AGE_S = 90 * 86_400.0
MAX_BYTES = 20 << 30
_PARTIAL_AGE_S = 7 * 86_400.0


class Directory(Protocol):
    """Files of the cache that belong together, beside the entries."""

    @property
    def size_bytes(self) -> int:
        """Disk space that it does not share with an entry."""

    @property
    def used_at(self) -> float:
        """Time of the last use (seconds since the epoch)."""

    @property
    def is_in_use(self) -> bool:
        """It must not be removed."""

    @property
    def files(self) -> Sequence[Path]: ...

    def remove(self) -> None:
        """Remove all of it. Raises HostError."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """What an eviction removed, or would remove."""

    entries: tuple[Entry, ...]
    directories: tuple[Directory, ...]
    partial_files: int
    freed_bytes: int


def evict(
    cache: Cache,
    *,
    max_age_s: float = MAX_AGE_S,
    max_bytes: int = MAX_BYTES,
    directories: Iterable[Directory] = (),
    dry_run: bool = False,
) -> Evicted:
    """Remove what is too old, then the longest unused until the rest fits. Blocking."""
    now = time.time()
    found: list[Entry | Directory] = [*cache.entries(), *directories]
    # What links an entry comes first if both are of one age.
    found.sort(key=lambda one: (one.used_at, isinstance(one, Entry)))
    total = sum(one.size_bytes for one in found)
    entries: list[Entry] = []
    gone: list[Directory] = []
    for one in found:
        if now - one.used_at <= max_age_s and total <= max_bytes:
            continue
        if isinstance(one, Entry):
            if is_in_use(one, without=gone):
                continue
            entries.append(one)
        elif one.is_in_use:
            continue
        else:
            gone.append(one)
        total -= one.size_bytes
    if not dry_run:
        for directory in gone:
            directory.remove()
        for entry in entries:
            cache.remove(entry.digest)
    freed = sum(one.size_bytes for one in entries) + sum(one.size_bytes for one in gone)
    count, partial_bytes = _evict_partial(cache, min(_PARTIAL_AGE_S, max_age_s), dry_run=dry_run)
    return Evicted(tuple(entries), tuple(gone), count, freed + partial_bytes)


def is_in_use(entry: Entry, *, without: Sequence[Directory] = ()) -> bool:
    """Return whether an entry is checked out, by something else than these directories."""
    if entry.pins or not entry.is_linked:
        return bool(entry.pins)
    if not without:
        return True
    links = Counter(_inode(path) for directory in without for path in directory.files)
    try:
        status = entry.path.stat()
    except FileNotFoundError:
        return False
    return status.st_nlink - links[(status.st_dev, status.st_ino)] > 1


def _inode(path: Path) -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)


def _evict_partial(cache: Cache, max_age_s: float, *, dry_run: bool) -> tuple[int, int]:
    """Remove old incomplete downloads; return their number and size."""
    now = time.time()
    count = freed = 0
    for path in cache.partial_files():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if now - status.st_mtime <= max_age_s or _is_locked(cache, path.name):
            continue
        if not dry_run:
            path.unlink(missing_ok=True)
        count += 1
        freed += status.st_blocks * 512
    return count, freed


def _is_locked(cache: Cache, name: str) -> bool:
    """Return whether a process is working on a partial file."""
    base = name.partition(".")[0]
    path = cache.root / "partial" / f"{base}.lock"
    if not path.exists():
        return False
    try:
        lock = FileLock.try_acquire(path)
    except HostError:
        return True
    if lock is None:
        return True
    lock.release()
    return False
