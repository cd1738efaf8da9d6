# SPDX-License-Identifier: Apache-2.0
"""Bridge from `logging` to the log lines of the command."""

import logging

from rdd.cli.framework.logline import Level, Log

_LEVELS: tuple[tuple[int, Level], ...] = (
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
    (logging.DEBUG, "debug"),
)


class LogHandler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; a traceback follows its message on the same line, quoted."""
        level: Level = next((name for number, name in _LEVELS if record.levelno >= number), "trace")
        self._log.write(level, self.format(record))


def forward_logging(log: Log) -> None:
    """Send all records of this process to the command's log."""
    logging.basicConfig(
        handlers=[LogHandler(log)], level=logging.DEBUG, format="%(message)s", force=True
    )
    for noisy in ("asyncio", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
