# SPDX-License-Identifier: Apache-2.0
"""Commands on a real terminal: progress of long waits, widths, colours."""

import os
import pty
import re
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import start_program

_SEQUENCE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@pytest.fixture
def world(rdd_script: Path, kubectl: Path, tmp_path: Path) -> Iterator[World]:
    yield from make_world(rdd_script, tmp_path / "h", kubectl)


def on_terminal(world: World, *words: str, columns: int = 80, **variables: str) -> str:
    """Return what a command shows on a terminal."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    shown = b""
    environment = {**world.environment(), "TERM": "xterm", "RDD_LOG_LEVEL": "warn", **variables}
    with start_program(
        [world.script, *words], env=environment, stdin=slave, stdout=slave, stderr=slave
    ) as program:
        os.close(slave)
        try:
            while data := os.read(master, 65536):
                shown += data
        except OSError:  # the last process closed the terminal
            pass
        program.wait()
    os.close(master)
    return shown.decode()


def test_wait_of_more_than_two_seconds_shows_phase_and_time(world: World) -> None:
    world.rdd("service", "start")
    waiting = ("ctl", "wait-condition", "app/app", "Settled", "--timeout=4s")
    shown = on_terminal(world, *waiting)
    assert re.search(r"\S waiting for Settled=True of app/app  [23]\.\d s", shown)
    assert re.search(r"✗ waiting for Settled=True of app/app  [345]\.\d s", shown)
    assert "\x1b[31mERRO" in shown
    plain = on_terminal(world, *waiting, NO_COLOR="1")
    assert "ERROR" in plain or "level=error" in plain
    assert not re.search(r"\x1b\[[0-9;]*m", plain)


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_screens_fit_the_terminal(world: World, columns: int) -> None:
    world.rdd("service", "start")
    for words in (["status"], ["doctor"], ["ls"], ["get"], ["history"], ["trash", "ls"], ["disk"]):
        shown = _SEQUENCE.sub("", on_terminal(world, *words, columns=columns))
        lines = [line.rpartition("\r")[2] for line in shown.replace("\r\n", "\n").split("\n")]
        for line in lines:  # a path is not broken
            assert len(line) <= columns or "/" in line, (words, line)
