# SPDX-License-Identifier: Apache-2.0
"""Retention: how much history a store keeps.

The window is given in revisions and in seconds, but rows carry no time. The
store therefore writes a mark from time to time, "everything up to this
revision was written before this time", with a batch that is written anyway.
The age of history is accurate to the distance of the marks and always rounded
towards keeping more.

Nothing here runs on a timer: the store computes a target only when enough
revisions have been added for one to be possible, so an idle store never wakes.
"""

from collections import deque
from collections.abc import Iterable

from rdd.store.options import StoreOptions

MARKS = 60
"""Number of marks in the time window; with the default of 5 minutes one every 5 seconds."""


class Retention:
    """The time marks of a history, and the revision up to which it may be compacted."""

    def __init__(
        self, compacted: int, marks: Iterable[tuple[int, float]], *, options: StoreOptions
    ) -> None:
        self.compacted = compacted
        self._options = options
        self._marks: deque[tuple[int, float]] = deque(marks)
        self._due_at = 0
        self._set_due(0)

    def mark(self, revision: int, now: float) -> bool:
        """Record that everything up to revision is older than now; False if it is too early."""
        if self._marks and 0 <= now - self._marks[-1][1] < self._options.keep_s / MARKS:
            return False
        if self._marks and now < self._marks[-1][1]:
            # The clock was set back; unadjusted marks would keep history until it catches up.
            self._marks = deque((at, min(time, now)) for at, time in self._marks)
        self._marks.append((revision, now))
        return True

    def is_due(self, revision: int) -> bool:
        """Return whether a target is possible at this revision."""
        return revision >= self._due_at

    def target(self, revision: int, now: float, *, is_crowded: bool = False) -> int:
        """Return the revision to compact to, or 0 if too little can be dropped."""
        options = self._options
        target = revision - options.keep_revisions
        if not is_crowded:
            old = 0
            for marked, time in self._marks:
                if time > now - options.keep_s:
                    break
                old = marked
            target = min(target, old)
        if target - self.compacted < options.compact_every:
            self._set_due(revision)
            return 0
        return target

    def advance(self, compacted: int) -> None:
        """Record that history up to a revision is compacted."""
        self.compacted = max(self.compacted, compacted)
        while len(self._marks) > 1 and self._marks[0][0] <= compacted:
            self._marks.popleft()
        self._set_due(0)

    def _set_due(self, revision: int) -> None:
        options = self._options
        self._due_at = max(
            self.compacted + options.keep_revisions + options.compact_every,
            revision + max(1, options.compact_every // 4),
        )
