# SPDX-License-Identifier: Apache-2.0
"""Remove what the cache no longer needs: the longest unused entries first.

Entries that are checked out (pinned, or linked into a machine) are never removed. Incomplete
downloads count as used until they are a week old, because the next attempt resumes them.
"""

import time
from dataclasses import dataclass

from rdd.fetch.cache import Cache, Entry
from rdd.host.errors import HostError
from rdd.host.locks import FileLock

MAX_AGE_S = 90 * 86_400.0
MAX_BYTES = 20 << 30
_PARTIAL_AGE_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Evicted:
    """What an eviction removed, or would remove."""

    entries: tuple[Entry, ...]
    partial_files: int
    freed_bytes: int


def evict(
    cache: Cache,
    *,
    max_age_s: float = MAX_AGE_S,
    max_bytes: int = MAX_BYTES,
    dry_run: bool = False,
) -> Evicted:
    """Remove entries that are too old, then the oldest until the rest fits. Blocking."""
    now = time.time()
    entries = sorted(cache.entries(), key=lambda entry: entry.used_at)
    total = sum(entry.size_bytes for entry in entries)
    removed: list[Entry] = []
    for entry in entries:
        is_excess = now - entry.used_at > max_age_s or total > max_bytes
        if not is_excess or is_in_use(entry):
            continue
        if not dry_run:
            cache.remove(entry.digest)
        removed.append(entry)
        total -= entry.size_bytes
    freed = sum(entry.size_bytes for entry in removed)
    count = 0
    for path in cache.partial_files():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if now - status.st_mtime <= min(_PARTIAL_AGE_S, max_age_s) or _is_locked(cache, path.name):
            continue
        if not dry_run:
            path.unlink(missing_ok=True)
        count += 1
        freed += status.st_blocks * 512
    return Evicted(tuple(removed), count, freed)


def is_in_use(entry: Entry) -> bool:
    """Return whether an entry is checked out."""
    return bool(entry.pins) or entry.is_linked


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
