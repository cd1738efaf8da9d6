# SPDX-License-Identifier: Apache-2.0
"""Points in time and ages as Kubernetes writes them.

On the wire a metav1.Time is RFC 3339 in UTC with whole seconds, a MicroTime
has six decimals. Reading follows Go's time.Parse, which is more lenient than
RFC 3339 in some places (one-digit hours, any number of decimals) and explains
errors by the part of the layout it stopped at. The well-formed case is decided
by one regular expression.
"""

import calendar
import re
import time
from collections.abc import Callable

LAYOUT = "2006-01-02T15:04:05Z07:00"
MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_MONTH_DAYS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
ZERO = "0001-01-01T00:00:00Z"
"""Go's zero time, which Kubernetes writes as null."""

_is_canonical = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
).fullmatch
_is_canonical_micro = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"\.[0-9]{6}Z"
).fullmatch

_last_second = (-1, "")


def now_text(clock: Callable[[], float] = time.time) -> str:
    """Return the current time as a metav1.Time; formatted once per second (0.1 µs otherwise)."""
    global _last_second
    second = int(clock())
    last = _last_second
    if last[0] != second:
        last = _last_second = (second, text(second))
    return last[1]


def now_micro_text(clock: Callable[[], float] = time.time) -> str:
    """Return the current time as a metav1.MicroTime."""
    now = clock()
    second = int(now)
    return micro_text(second, int((now - second) * 1_000_000))


def text(second: int) -> str:
    """Return seconds since the epoch as a metav1.Time."""
    return _date_time(second) + "Z"


def micro_text(second: int, microsecond: int) -> str:
    """Return seconds since the epoch and a fraction as a metav1.MicroTime."""
    return f"{_date_time(second)}.{microsecond:06d}Z"


def _date_time(second: int) -> str:
    days, rest = divmod(second, 86400)
    year, month, day = _civil(days)
    hour, rest = divmod(rest, 3600)
    minute, rest = divmod(rest, 60)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{rest:02d}"


def parse(value: str) -> tuple[int, int]:
    """Return seconds since the epoch and nanoseconds of an RFC 3339 text, as metav1.Time reads it.

    Raises ValueError with Go's message if it is none.
    """
    return _Reader(value, LAYOUT).read()


def parse_micro(value: str) -> tuple[int, int]:
    """As `parse`, for a MicroTime: exactly six decimals are required."""
    return _Reader(value, MICRO_LAYOUT).read()


def normalise(value: str) -> str | None:
    """Return a metav1.Time in the form in which it is stored; None for the zero time.

    Raises ValueError with Go's message if it is no time.
    """
    if _is_canonical(value):
        return None if value == ZERO else value
    written = text(parse(value)[0])
    return None if written == ZERO else written


def normalise_micro(value: str) -> str | None:
    """Return a metav1.MicroTime in the form in which it is stored; None for the zero time.

    Raises ValueError with Go's message if it is no time.
    """
    if _is_canonical_micro(value):
        return None if value == f"{ZERO[:-1]}.000000Z" else value
    second, nano = parse_micro(value)
    written = micro_text(second, nano // 1000)
    return None if written == f"{ZERO[:-1]}.000000Z" else written


def human_duration(seconds: float) -> str:
    """Return an age with two or three significant figures: `5s`, `3m20s`, `5h`, `3d4h`, `2y10d`."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 120:
        return f"{max(total, 0)}s"
    minutes, hours, days = total // 60, total // 3600, total // 86400
    if minutes < 10:
        return _two(minutes, "m", total % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(major: int, unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{unit}{minor}{minor_unit}" if minor else f"{major}{unit}"


class _Reader:
    """One run of time.Parse over the elements of a layout."""

    def __init__(self, value: str, layout: str) -> None:
        self.value = value
        self.rest = value
        self.layout = layout

    def read(self) -> tuple[int, int]:
        year = self._year()
        self._skip("-")
        month = self._number("01", 1, 12, "month")
        self._skip("-")
        day = self._number("02", -1, 99, "day")
        self._skip("T")
        hour = self._number("15", 0, 23, "hour", fixed=False)
        self._skip(":")
        minute = self._number("04", 0, 59, "minute")
        self._skip(":")
        second = self._number("05", 0, 59, "second")
        nano = self._decimals()
        offset = self._zone()
        if self.rest:
            raise self._wrong(f": extra text: {_quote(self.rest)}")
        if not 1 <= day <= _MONTH_DAYS[month] + (month == 2 and calendar.isleap(year)):
            raise self._wrong(": day out of range")
        days = _days(year, month, day)
        return days * 86400 + hour * 3600 + minute * 60 + second - offset, nano

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f"parsing time {_quote(self.value)}{why}")

    def _unexpected(self, element: str, rest: str) -> ValueError:
        return self._wrong(
            f" as {_quote(self.layout)}: cannot parse {_quote(rest)} as {_quote(element)}"
        )

    def _skip(self, prefix: str) -> None:
        if not self.rest.startswith(prefix):
            raise self._unexpected(prefix, self.rest)
        self.rest = self.rest[len(prefix) :]

    def _year(self) -> int:
        digits = self.rest[:4]
        if len(digits) < 4 or not _is_number(digits):
            raise self._unexpected("2006", self.rest)
        self.rest = self.rest[4:]
        return int(digits)

    def _number(self, element: str, low: int, high: int, what: str, *, fixed: bool = True) -> int:
        rest = self.rest
        size = 2 if _is_number(rest[1:2]) else 1
        if not _is_number(rest[:1]) or (fixed and size == 1):
            raise self._unexpected(element, rest)
        number, self.rest = int(rest[:size]), rest[size:]
        if not low <= number <= high:
            raise self._wrong(f": {what} out of range")
        return number

    def _decimals(self) -> int:
        rest = self.rest
        if self.layout == MICRO_LAYOUT:
            digits = rest[1:7]
            if rest[:1] not in (".", ",") or len(digits) < 6 or not _is_number(digits):
                raise self._unexpected(".000000", rest)
            self.rest = rest[7:]
            return int(digits) * 1000
        if rest[:1] not in (".", ",") or not _is_number(rest[1:2]):
            return 0
        end = 1
        while _is_number(rest[end : end + 1]):
            end += 1
        self.rest = rest[end:]
        return int(rest[1:10].ljust(9, "0")[: min(end - 1, 9)].ljust(9, "0"))

    def _zone(self) -> int:
        rest = self.rest
        if rest.startswith("Z"):
            self.rest = rest[1:]
            return 0
        sign, hours, minutes = rest[:1], rest[1:3], rest[4:6]
        malformed = len(rest) < 6 or rest[3] != ":" or sign not in ("+", "-")
        if malformed or not (_is_number(hours) and _is_number(minutes)):
            raise self._unexpected("Z07:00", rest)
        if int(hours) > 24:
            raise self._wrong(": time zone offset hour out of range")
        if int(minutes) > 60:
            raise self._wrong(": time zone offset minute out of range")
        self.rest = rest[6:]
        offset = int(hours) * 3600 + int(minutes) * 60
        return -offset if sign == "-" else offset


def _is_number(digits: str) -> bool:
    return digits.isascii() and digits.isdigit()


def _days(year: int, month: int, day: int) -> int:
    """Return days from the epoch; Go's calendar has a year 0, datetime's does not."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return (
        era * 146097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + day_of_year
        - 719468
    )


def _civil(days: int) -> tuple[int, int, int]:
    """Return the inverse of `_days`."""
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return (
        year_of_era + era * 400 + (month <= 2),
        month,
        day_of_year - (153 * shifted + 2) // 5 + 1,
    )


def _quote(text: str) -> str:
    """Return the text as errors of Go's time package quote it: other bytes than ASCII as hex."""
    shown = (
        f"\\{char}"
        if char in '"\\'
        else char
        if " " <= char < "\x80"
        else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
        for char in text
    )
    return f'"{"".join(shown)}"'
