# SPDX-License-Identifier: Apache-2.0
"""How much history to keep.

The window is given in revisions and in seconds, but rows carry no time. So the
store leaves a mark now and then, "everything up to this revision was written
before this time", with a batch that is written anyway. The age of history is
known to the accuracy of the marks, always rounded towards keeping more.

Nothing here runs on a timer: the question is asked when the revision has grown
enough for an answer other than no, so an idle store does not wake up.
"""

from collections import deque
from collections.abc import Iterable

from rdd.store.options import StoreOptions

MARKS = 60
"""How many marks cover the window of time: with the default of 5 minutes one in 5 seconds."""


class Retention:
    """Marks of time in the history, and the revision up to which it may be forgotten."""

    def __init__(
        self, compacted: int, marks: Iterable[tuple[int, float]], *, options: StoreOptions
    ) -> None:
        self.compacted = compacted
        self._options = options
        self._marks: deque[tuple[int, float]] = deque(marks)
        self._ask_at = 0
        self._ask_after(0)

    def mark(self, revision: int, now: float) -> bool:
        """Note that everything up to revision is older than now; False if it is too early."""
        if self._marks and 0 <= now - self._marks[-1][1] < self._options.keep_s / MARKS:
            return False
        if self._marks and now < self._marks[-1][1]:
            # The clock was set back. Without this, history would be kept until it catches up.
            self._marks = deque((at, min(time, now)) for at, time in self._marks)
        self._marks.append((revision, now))
        return True

    def is_due(self, revision: int) -> bool:
        """Whether it is worth asking for a target."""
        return revision >= self._ask_at

    def target(self, revision: int, now: float, *, is_crowded: bool = False) -> int:
        """The revision to compact to, or 0 if not enough can go."""
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
            self._ask_after(revision)
            return 0
        return target

    def advance(self, compacted: int) -> None:
        """Note that history up to a revision is gone."""
        self.compacted = max(self.compacted, compacted)
        while len(self._marks) > 1 and self._marks[0][0] <= compacted:
            self._marks.popleft()
        self._ask_after(0)

    def _ask_after(self, revision: int) -> None:
        options = self._options
        self._ask_at = max(
            self.compacted + options.keep_revisions + options.compact_every,
            revision + max(1, options.compact_every // 4),
        )
