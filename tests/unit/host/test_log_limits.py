# SPDX-License-Identifier: Apache-2.0
"""A log has a bounded rate per message and a bounded size."""

import logging
import os
from pathlib import Path

import pytest

from rdd.host import log_limits
from rdd.host.log_limits import BURST, PERIOD_S, RateLimit, SizeLimit


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def record(text: str, *args: object, level: int = logging.WARNING) -> logging.LogRecord:
    return logging.LogRecord("rdd", level, "f.py", 1, text, args, None)


def test_repeated_message_is_limited_whatever_its_arguments() -> None:
    limit = RateLimit(Clock())
    passed = [limit.filter(record("request failed: %s", number)) for number in range(1000)]
    assert sum(passed) == BURST
    assert limit.filter(record("another message: %s", 1))
    assert all(limit.filter(record("x", level=logging.DEBUG)) for _ in range(1000))


def test_next_line_counts_those_that_were_left_out() -> None:
    clock = Clock()
    limit = RateLimit(clock)
    for number in range(BURST + 7):
        limit.filter(record("request %s of 100 %%", number))
    clock.now += PERIOD_S
    later = record("request %s of 100 %%", "x")
    assert limit.filter(later)
    assert later.getMessage() == "request x of 100 % (7 similar lines were left out)"
    assert not limit.filter(record("request %s of 100 %%", "y"))


def test_number_of_messages_is_bounded() -> None:
    limit = RateLimit(Clock())
    for number in range(10_000):
        limit.filter(record(f"text {number}"))
    assert len(limit._messages) <= log_limits.MAX_MESSAGES


def test_log_is_rotated_while_its_process_runs(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.touch(mode=0o600)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    limit = SizeLimit(tmp_path, {descriptor: "x"}, first_line="title", max_bytes=1000)
    try:
        for number in range(100):
            os.write(descriptor, f"{number:099}\n".encode())
            limit.check()
    finally:
        os.close(descriptor)
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert len(sizes) == 6, "the current one and five rotated ones"
    assert max(sizes.values()) <= 1100
    assert log.read_text().startswith("title\n")
    assert log.stat().st_mode & 0o777 == 0o600
    newest = max(tmp_path.iterdir(), key=lambda path: path.read_text())
    assert newest.exists()


def test_redirected_output_is_not_rotated(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("other")
    elsewhere = os.open(tmp_path / "elsewhere", os.O_WRONLY | os.O_CREAT)
    os.write(elsewhere, b"x" * 5000)
    reading, writing = os.pipe()
    try:
        SizeLimit(tmp_path, {elsewhere: "x", writing: "y", 999: "z"}, max_bytes=10).check()
    finally:
        for descriptor in (elsewhere, reading, writing):
            os.close(descriptor)
    assert {path.name for path in tmp_path.iterdir()} == {"x.log", "elsewhere"}


@pytest.mark.parametrize("kind", ["link", "file"])
def test_new_log_is_never_one_that_lies_in_the_way(tmp_path: Path, kind: str) -> None:
    from rdd.host.logs import rotate

    victim = tmp_path / "victim"
    victim.write_text("keep")
    if kind == "link":
        (tmp_path / "x.log").symlink_to(victim)
    rotate(tmp_path, "x", first_line="title")
    assert victim.read_text() == "keep"
    assert not (tmp_path / "x.log").is_symlink()
