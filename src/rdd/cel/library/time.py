# SPDX-License-Identifier: Apache-2.0
"""Timestamps and durations: reading, writing, and their parts.

Timestamps are RFC 3339, durations the texts of Go's time package (`1h30m`).
Parts of a timestamp are those in UTC unless a time zone is given.
"""

import datetime
import functools
import re
import zoneinfo
from collections.abc import Callable

from rdd.cel import types as t
from rdd.cel.errors import EvaluationError, conversion_error
from rdd.cel.functions import Library
from rdd.cel.values import MAX_INT, Duration, Timestamp

LIBRARY = Library()

_SECOND = 10**9
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

# The layout of RFC 3339 piece by piece: what Go calls the piece, and what it looks like.
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)\Z", re.ASCII
)


def parse_timestamp(text: str) -> Timestamp:
    """Return an RFC 3339 text as a timestamp."""
    found = _TIMESTAMP.match(text)
    if found is None:
        raise conversion_error("google.protobuf.Timestamp")
    year, month, day, hour, minute, second = (int(found[i]) for i in range(1, 7))
    if not 1 <= month <= 12 or hour > 23 or minute > 59 or second > 59:
        raise conversion_error("google.protobuf.Timestamp")
    try:
        days = datetime.date(year, month, day).toordinal() - 719163
    except ValueError:
        raise conversion_error("google.protobuf.Timestamp") from None
    nanos = int((found[7] or "0")[:9].ljust(9, "0"))
    seconds = days * 86400 + hour * 3600 + minute * 60 + second - _offset_s(found[8])
    return Timestamp(seconds * _SECOND + nanos)


def _offset_s(text: str) -> int:
    if text == "Z":
        return 0
    seconds = int(text[1:3]) * 3600 + int(text[4:6]) * 60
    return -seconds if text[0] == "-" else seconds


def format_timestamp(value: Timestamp) -> str:
    """Return a timestamp as RFC 3339 in UTC, with as many digits of the second as needed."""
    seconds, nanos = divmod(value.ns, _SECOND)
    moment = _EPOCH + datetime.timedelta(seconds=seconds)
    text = f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}"
    return f"{text}.{nanos:09d}".rstrip("0") + "Z" if nanos else text + "Z"


_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": _SECOND, "m": 60 * _SECOND, "h": 3600 * _SECOND,
}  # fmt: skip
_DURATION_PART = re.compile(r"(\d*)(?:\.(\d*))?([^\d.]*)", re.ASCII)


def parse_duration(text: str) -> Duration:
    """Return a text of Go's time package as a duration."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    if not rest:
        raise conversion_error("google.protobuf.Duration")
    total = 0
    while rest:
        found = _DURATION_PART.match(rest)
        whole, fraction, unit = found.groups() if found else ("", None, "")
        if not whole and not fraction:
            raise conversion_error("google.protobuf.Duration")
        if not unit:
            raise conversion_error("google.protobuf.Duration")
        if unit not in _UNITS:
            raise conversion_error("google.protobuf.Duration")
        if len(whole) > 20:
            raise conversion_error("google.protobuf.Duration")
        scale = _UNITS[unit]
        total += int(whole or 0) * scale
        if fraction:
            digits = fraction[:20]
            total += int(digits) * scale // 10 ** len(digits)
        rest = rest[found.end() :] if found else ""
    if total > MAX_INT:
        raise conversion_error("google.protobuf.Duration")
    return Duration(sign * total)


def format_duration(value: Duration) -> str:
    """Return a duration in seconds: `90s`, `0.5s`."""
    seconds, nanos = divmod(abs(value.ns), _SECOND)
    text = f"{seconds}.{nanos:09d}".rstrip("0") if nanos else str(seconds)
    return f"-{text}s" if value.ns < 0 else f"{text}s"


@functools.lru_cache(maxsize=64)
def _zone(name: str) -> datetime.tzinfo:
    if ":" in name:
        found = re.match(r"([+-]?)(\d{1,2}):(\d{2})\Z", name, re.ASCII)
        if found is None or int(found[2]) > 23 or int(found[3]) > 59:
            raise EvaluationError(f"invalid timezone: {name}")
        minutes = int(found[2]) * 60 + int(found[3])
        return datetime.timezone(
            datetime.timedelta(minutes=-minutes if found[1] == "-" else minutes)
        )
    if name in ("", "UTC"):
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _moment(value: Timestamp, zone: str) -> datetime.datetime:
    moment = _EPOCH + datetime.timedelta(seconds=value.ns // _SECOND)
    try:
        return moment.astimezone(_zone(zone))
    except OverflowError:
        raise EvaluationError("timestamp overflow") from None


_PARTS: dict[str, Callable[[datetime.datetime], int]] = {
    "getFullYear": lambda m: m.year,
    "getMonth": lambda m: m.month - 1,
    "getDayOfYear": lambda m: m.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda m: m.day - 1,
    "getDate": lambda m: m.day,
    "getDayOfWeek": lambda m: m.isoweekday() % 7,
    "getHours": lambda m: m.hour,
    "getMinutes": lambda m: m.minute,
    "getSeconds": lambda m: m.second,
}


def _truncated(value: Duration, unit: int) -> int:
    whole = abs(value.ns) // unit
    return -whole if value.ns < 0 else whole


def _milliseconds(value: Timestamp, _zone_name: str = "") -> int:
    return value.ns % _SECOND // 10**6


def _declare_part(name: str, part: Callable[[datetime.datetime], int]) -> None:
    def get(value: Timestamp, zone: str = "UTC") -> int:
        return part(_moment(value, zone))

    prefix = f"timestamp_to_{name}"
    LIBRARY.method(name, prefix, (t.TIMESTAMP,), t.INT, get)
    LIBRARY.method(name, f"{prefix}_with_tz", (t.TIMESTAMP, t.STRING), t.INT, get)


def _declare() -> None:
    for name, part in _PARTS.items():
        _declare_part(name, part)
    name = "getMilliseconds"
    LIBRARY.method(name, f"timestamp_to_{name}", (t.TIMESTAMP,), t.INT, _milliseconds)
    LIBRARY.method(
        name, f"timestamp_to_{name}_with_tz", (t.TIMESTAMP, t.STRING), t.INT, _milliseconds
    )
    units = {"getHours": 3600 * _SECOND, "getMinutes": 60 * _SECOND, "getSeconds": _SECOND,
             "getMilliseconds": 10**6}  # fmt: skip
    for name, unit in units.items():
        LIBRARY.method(
            name,
            f"duration_to_{name}",
            (t.DURATION,),
            t.INT,
            functools.partial(_truncated, unit=unit),
        )


_declare()
