# SPDX-License-Identifier: Apache-2.0
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rdd.api import timestamps


@settings(max_examples=100, deadline=None)
@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 31)))
def test_times_agree_with_the_standard_library(moment: datetime) -> None:
    moment = moment.replace(tzinfo=UTC)
    second = (moment.replace(microsecond=0) - datetime(1970, 1, 1, tzinfo=UTC)) // _SECOND
    text = moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    assert timestamps.text(second) == text
    assert timestamps.parse(text) == (second, 0)
    assert timestamps.normalise(text) == text
    micro = timestamps.micro_text(second, moment.microsecond)
    assert timestamps.parse_micro(micro) == (second, moment.microsecond * 1000)
    assert timestamps.normalise_micro(micro) == micro


_SECOND = datetime(2000, 1, 1, 0, 0, 1) - datetime(2000, 1, 1)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("2026-01-02T05:04:05+02:00", "2026-01-02T03:04:05Z"),
        ("2026-01-01T23:04:05-04:30", "2026-01-02T03:34:05Z"),
        ("2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05,5Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T3:04:05Z", "2026-01-02T03:04:05Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
        ("0000-03-01T00:00:00Z", "0000-03-01T00:00:00Z"),
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01T02:00:00+02:00", None),
    ],
)
def test_times_are_read_as_leniently_as_go_does(text: str, normal: str | None) -> None:
    assert timestamps.normalise(text) == normal


def test_nanoseconds_are_kept_by_the_parser() -> None:
    assert timestamps.parse("1970-01-01T00:00:01.5Z") == (1, 500_000_000)
    assert timestamps.parse("1970-01-01T00:00:01.1234567891Z") == (1, 123_456_789)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
        ("soon", ' as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"'),
        ("2026/01", ' as "2006-01-02T15:04:05Z07:00": cannot parse "/01" as "-"'),
        ("2026-1-2T", ' as "2006-01-02T15:04:05Z07:00": cannot parse "1-2T" as "01"'),
        ("2026-01-02 03:04:05Z",
         ' as "2006-01-02T15:04:05Z07:00": cannot parse " 03:04:05Z" as "T"'),
        ("2026-01-02T03:04:05", ' as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2026-01-02T03:04:05+2", ' as "2006-01-02T15:04:05Z07:00": cannot parse "+2" as "Z07:00"'),
        ("2026-13-02T03:04:05Z", ": month out of range"),
        ("2026-02-30T03:04:05Z", ": day out of range"),
        ("2026-01-00T03:04:05Z", ": day out of range"),
        ("2026-01-02T24:04:05Z", ": hour out of range"),
        ("2026-01-02T03:60:05Z", ": minute out of range"),
        ("2026-01-02T03:04:60Z", ": second out of range"),
        ("2026-01-02T03:04:05+25:00", ": time zone offset hour out of range"),
        ("2026-01-02T03:04:05+05:61", ": time zone offset minute out of range"),
        ("2026-01-02T03:04:05Z!", ': extra text: "!"'),
    ],
)  # fmt: skip
def test_errors_are_worded_as_in_go(text: str, why: str) -> None:
    with pytest.raises(ValueError) as caught:
        timestamps.normalise(text)
    assert str(caught.value) == f'parsing time "{text}"{why}'


def test_micro_times_need_six_decimals() -> None:
    with pytest.raises(ValueError) as caught:
        timestamps.normalise_micro("2026-01-02T03:04:05Z")
    assert str(caught.value) == (
        'parsing time "2026-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": '
        'cannot parse "Z" as ".000000"'
    )
    shifted = timestamps.normalise_micro("2026-01-02T05:04:05.123456+02:00")
    assert shifted == "2026-01-02T03:04:05.123456Z"
    assert timestamps.normalise_micro("0001-01-01T00:00:00.000000Z") is None


def test_the_current_time_is_formatted_once_per_second() -> None:
    first = timestamps.now_text(lambda: 1767323045.2)
    assert first == "2026-01-02T03:04:05Z"
    assert timestamps.now_text(lambda: 1767323045.9) is first
    assert timestamps.now_text(lambda: 1767323046.0) == "2026-01-02T03:04:06Z"
    assert timestamps.now_micro_text(lambda: 1.25) == "1970-01-01T00:00:01.250000Z"


_DAY = 86400
_YEAR = 365 * _DAY


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2.0, "<invalid>"), (-1.5, "0s"), (0, "0s"), (119.9, "119s"), (120, "2m"), (121, "2m1s"),
        (599, "9m59s"), (600, "10m"), (10799, "179m"), (10800, "3h"), (10860, "3h1m"),
        (8 * 3600, "8h"), (47 * 3600, "47h"), (2 * _DAY, "2d"), (2 * _DAY + 3600, "2d1h"),
        (8 * _DAY, "8d"), (_YEAR, "365d"), (2 * _YEAR, "2y"), (2 * _YEAR + _DAY, "2y1d"),
        (8 * _YEAR + 5 * _DAY, "8y"),
    ],
)  # fmt: skip
def test_ages_have_two_or_three_figures(seconds: float, text: str) -> None:
    assert timestamps.human_duration(seconds) == text
