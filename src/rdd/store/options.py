# SPDX-License-Identifier: Apache-2.0
"""What can be tuned in a store, with the defaults the daemon runs with.

Every number here bounds something: history on disk, history in memory, or
what one slow consumer may cost. Both implementations take the same options.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of `SqliteStore` and `MemoryStore`."""

    # Wall clock in seconds: expiry times are kept in the file and outlive the process.
    clock: Callable[[], float] = time.time

    # History is kept while it is among the last keep_revisions OR younger than keep_s.
    keep_revisions: int = 10_000
    keep_s: float = 300.0

    # Compaction starts when at least this many revisions can go. Smaller means
    # less disk and more, shorter compactions; a tenth of keep_revisions is noise.
    compact_every: int = 1_000

    # When the file holds more than this, age no longer protects history and only
    # keep_revisions does: a client that rewrites a large object in a loop for
    # five minutes must not fill the disk of a desktop.
    crowded_bytes: int = 1 << 30

    # Recent events kept in memory, so that a watch that resumes shortly after
    # it was cut, or that finishes its replay, needs no further read.
    ring_events: int = 1_024
    ring_bytes: int = 2 << 20

    # What may wait in one watch before it is closed with Overrun.
    watch_events: int = 4_096
    watch_bytes: int = 8 << 20
