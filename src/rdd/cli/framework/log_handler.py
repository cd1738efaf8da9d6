# SPDX-License-Identifier: Apache-2.0
"""Bridge from `logging` to the log lines of the command.

Invariant: a log line that cannot be written raises nothing. Threads and teardowns log their
failures, and those are most likely when the disk of the log is full, too: an exception would end
them in the middle. The stream keeps the first lines that it could not write (8 KiB) and writes
them later.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from rdd.cli.framework.logline import Level, Log
from rdd.host.log_limits import RateLimit

_LEVELS: tuple[tuple[int, Level], ...] = (
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
    (logging.DEBUG, "debug"),
)


class LogHandler(logging.Handler):
    def __init__(self, log: Log, *, after: Callable[[], None] | None = None) -> None:
        """Write to a log; `after` is called after each line."""
        super().__init__()
        self._log = log
        self._after = after
        self.addFilter(RateLimit())

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a traceback follows its message on the same line, quoted."""
        level: Level = next((name for number, name in _LEVELS if record.levelno >= number), "trace")
        with suppress(OSError, ValueError):  # a full disk, a closed pipe, a closed stream
            self._log.write(level, self.format(record))
            if self._after is not None:
                self._after()


def forward_logging(log: Log, *, after: Callable[[], None] | None = None) -> None:
    """Send all records of this process to the command's log, within a rate per message."""
    logging.basicConfig(
        handlers=[LogHandler(log, after=after)],
        level=logging.DEBUG,
        format="%(message)s",
        force=True,
    )
    for noisy in ("asyncio", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
