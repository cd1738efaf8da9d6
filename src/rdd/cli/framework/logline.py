# SPDX-License-Identifier: Apache-2.0
"""Log lines on stderr.

Three formats: `text` for files and pipes (key=value, the format of logrus, which
scripts match), `json` (one object per line, which the GUI parses), and coloured text
on a terminal. Messages go to stderr only; stdout is for data.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TextIO

from rdd.base.gotext import quote
from rdd.cli.framework.errors import FAILED, REJECTED, TIMED_OUT, VERSION_MISMATCH, CommandError

Level = Literal["fatal", "error", "warning", "info", "debug", "trace"]
Format = Literal["text", "json", "terminal"]

LEVELS: tuple[Level, ...] = ("fatal", "error", "warning", "info", "debug", "trace")
FORMATS = ("text", "json")
_COLOURS = {"fatal": 31, "error": 31, "warning": 33, "info": 36, "debug": 37, "trace": 37}


def parse_level(text: str, *, source: str) -> Level:
    """Return the level named `text` (any case, `warn` for `warning`). Raises CommandError."""
    lowered = text.lower()
    for level in LEVELS:
        if lowered == level or (lowered == "warn" and level == "warning"):
            return level
    raise CommandError(
        f"not a valid logrus Level: {quote(text)} in {source}; "
        "valid levels: fatal, error, warn, info, debug, trace"
    )


def parse_format(text: str) -> Format:
    """Return the format named `text`. Raises CommandError."""
    if text == "text":
        return "text"
    if text == "json":
        return "json"
    raise CommandError(f"invalid log format: {quote(text)}; valid formats: text, json")


def klog_verbosity(level: Level) -> int:
    """Return the `-v` of the daemon that corresponds to a log level."""
    return {"debug": 2, "trace": 4}.get(level, 0)


def rfc3339(seconds: float) -> str:
    """Return a point in time to the second, in the local time zone."""
    local = time.localtime(seconds)
    offset = time.strftime("%z", local)
    zone = "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}"
    return time.strftime("%Y-%m-%dT%H:%M:%S", local) + zone


def text_line(level: Level, message: str, *, when: str, fields: Mapping[str, int]) -> str:
    """Return a line in key=value form."""
    extra = "".join(f" {key}={value}" for key, value in fields.items())
    return f'time="{when}" level={level} msg={quote(message)}{extra}'


def json_line(level: Level, message: str, *, when: str, fields: Mapping[str, int]) -> str:
    """Return a line as one JSON object."""
    import json

    record = {**fields, "level": level, "msg": message, "time": when}
    return json.dumps(record, sort_keys=True, separators=(",", ":"))


def terminal_line(level: Level, message: str, width: int = 0) -> str:
    """Return a message for a terminal: the level in colour, then the text, filled to a width.

    Commands in it stay whole, so that they can be pasted.
    """
    from rdd.cli.framework.wrapping import filled, unbroken

    title = level.upper()[:4]
    first, *more = message.split("\n")
    lines = filled(unbroken(first, in_quotes=True), width, start=f"{title} ", indent="     ")
    for line in more:
        lines += filled(unbroken(line, in_quotes=True), width)
    return f"\x1b[{_COLOURS[level]}m{title}\x1b[0m" + "\n".join(lines).removeprefix(title)


class Log:
    """Writes messages; the commands that they suggest select the instance."""

    def __init__(
        self,
        stream: TextIO,
        *,
        level: Level = "warning",
        format: Format = "text",
        suffix: str = "",
    ) -> None:
        self._stream = stream
        self._suffix = suffix
        self._threshold = LEVELS.index(level)
        self.level = level
        self._format = format

    def at_least(self, level: Level) -> "Log":
        """Return a log for the same stream that shows at least messages of this level."""
        shown = max(self.level, level, key=LEVELS.index)
        return Log(self._stream, level=shown, format=self._format, suffix=self._suffix)

    def debug(self, message: str) -> None:
        self.write("debug", message)

    def info(self, message: str) -> None:
        self.write("info", message)

    def warning(self, message: str) -> None:
        self.write("warning", message)

    def failure(self, message: str, *, exit_code: int) -> None:
        """Write the last line of a failed command, regardless of the level.

        Exit codes with a documented meaning have level `error` and include the code; all others
        have level `fatal`.
        """
        fields = {} if exit_code == FAILED else {"exit-code": exit_code}
        expected = exit_code in (REJECTED, TIMED_OUT, VERSION_MISMATCH)
        with suppress(OSError):  # a full disk: the exit code remains
            self._emit("error" if expected else "fatal", message, fields)

    def write(self, level: Level, message: str) -> None:
        """Write one message unless it is below the level of this log."""
        if LEVELS.index(level) <= self._threshold:
            self._emit(level, message, {})

    def _emit(self, level: Level, message: str, fields: Mapping[str, int]) -> None:
        when = rfc3339(time.time())
        if self._suffix and "rdd " in message:
            from rdd.cli.framework.wording import addressed

            message = addressed(message, self._suffix)
        if self._format == "json":
            line = json_line(level, message, when=when, fields=fields)
        elif self._format == "terminal":
            from rdd.cli.framework.environment import terminal_width

            line = terminal_line(level, message, terminal_width(self._stream))
        else:
            line = text_line(level, message, when=when, fields=fields)
        self._stream.write(line + "\n")
        self._stream.flush()
