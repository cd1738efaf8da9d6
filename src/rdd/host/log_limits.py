# SPDX-License-Identifier: Apache-2.0
"""Limits of what a long-running process logs: lines per message, bytes per file.

Whoever can cause a log line can cause many. `RateLimit` lets `BURST` lines of the same message pass
and then one per `PERIOD_S`, with the number of omitted ones. `SizeLimit` rotates the log files
of the process while it runs, so that all of them together have a bounded size.
"""

import logging
import os
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.logs import rotate

BURST = 20
PERIOD_S = 10.0
MAX_MESSAGES = 256
MAX_FILE_BYTES = 16 * 1024 * 1024
_KEY_CHARACTERS = 80


class RateLimit(logging.Filter):
    """Limits each message: the text of the source, whatever its arguments are."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._messages: dict[tuple[str, str], _Allowance] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record may pass; debug records always may."""
        if record.levelno < logging.INFO:
            return True
        # Some texts of asyncio are complete sentences with addresses in them.
        key = record.name, str(record.msg)[:_KEY_CHARACTERS]
        known = self._messages.get(key)
        now = self._clock()
        if known is None:
            if len(self._messages) >= MAX_MESSAGES:
                del self._messages[next(iter(self._messages))]
            known = self._messages[key] = _Allowance(now)
        if not known.take(now):
            return False
        if known.left_out:
            record.msg = f"{record.getMessage()} ({known.left_out} similar lines were left out)"
            record.args = ()
            known.left_out = 0
        return True


class _Allowance:
    """The lines that a message may still have."""

    __slots__ = ("_lines", "_since", "left_out")

    def __init__(self, now: float) -> None:
        self._lines = float(BURST)
        self._since = now
        self.left_out = 0

    def take(self, now: float) -> bool:
        self._lines = min(self._lines + (now - self._since) / PERIOD_S, BURST)
        self._since = now
        if self._lines < 1:
            self.left_out += 1
            return False
        self._lines -= 1
        return True


class SizeLimit:
    """Rotates files that descriptors of this process write to.

    The process MUST hold the lock that makes it the only one that rotates them.
    """

    def __init__(
        self,
        directory: Path,
        names: Mapping[int, str],
        *,
        keep_all: bool = False,
        first_line: str = "",
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        """`names` are those of the logs, without `.log`, by descriptor."""
        self._directory = directory
        self._names = names
        self._keep_all = keep_all
        self._first_line = first_line
        self._max_bytes = max_bytes

    def check(self) -> None:
        """Rotate what has grown too large; a log that cannot be rotated grows on."""
        for descriptor, name in self._names.items():
            try:
                found = os.fstat(descriptor)
                if found.st_size > self._max_bytes and stat.S_ISREG(found.st_mode):
                    self._rotate(descriptor, name, found)
            except (OSError, HostError):
                continue

    def _rotate(self, descriptor: int, name: str, found: os.stat_result) -> None:
        path = self._directory / f"{name}.log"
        if not os.path.samestat(path.stat(), found):
            return  # redirected elsewhere by the user
        new = rotate(self._directory, name, keep_all=self._keep_all, first_line=self._first_line)
        opened = os.open(new, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            os.dup2(opened, descriptor)
        finally:
            os.close(opened)
