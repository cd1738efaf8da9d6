# SPDX-License-Identifier: Apache-2.0
"""The options of a store; the defaults are those of the daemon.

All implementations accept the same options.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of `SqliteStore`, `MemoryStore` and `EtcdStore`."""

    # Wall clock in seconds: expiry times are kept in the file and outlive the process.
    clock: Callable[[], float] = time.time

    # History is kept while it is among the last keep_revisions OR younger than keep_s.
    keep_revisions: int = 10_000
    keep_s: float = 300.0

    # Compaction starts when it can drop at least this many revisions. A smaller value means
    # less disk and more, shorter compactions; a tenth of keep_revisions makes no difference.
    compact_every: int = 1_000

    # When the file holds more than this, age no longer protects history and only
    # keep_revisions does: a client that rewrites a large object in a loop for
    # five minutes must not fill the disk of a desktop.
    crowded_bytes: int = 1 << 30

    # Where copies are written before the format of a file changes; None: beside the file.
    backup_dir: Path | None = None

    # Whether a value can be one that the owner wrote; asked when a format without checksums
    # becomes one with them.
    is_readable: Callable[[bytes], bool] = lambda _: True
