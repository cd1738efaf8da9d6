# SPDX-License-Identifier: Apache-2.0
"""Texts at the width of a terminal: help, tables, and the screens of doctor and status."""

import io
import os
import pty
import termios
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import pytest

from rdd.api.types import Object
from rdd.cli.commands import doctor
from rdd.cli.commands.app import status
from rdd.cli.commands.declarations import ROOT
from rdd.cli.framework.logline import terminal_line
from rdd.cli.framework.tables import table
from rdd.cli.framework.types import Command, Group
from rdd.cli.framework.wrapping import columns, filled, unbroken

Rdd = Callable[..., Any]
WIDTHS = (30, 40, 60, 80, 120)


def commands(node: Group | Command = ROOT, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(node, Command):
        return [path]
    return [path] + [p for m in node.members for p in commands(m, (*path, m.name))]


@pytest.mark.parametrize("columns", ["40", "60", "80"])
def test_every_help_text_fits_the_terminal(rdd: Rdd, columns: str) -> None:
    too_long = {
        (*path, line)
        for path in commands()
        for line in rdd("help", *path, COLUMNS=columns).out.splitlines()
        if len(line) > int(columns) and not line.startswith("  rdd ")  # a usage to be copied
    }
    assert too_long == set()


def test_usage_lines_fit_80_columns(rdd: Rdd) -> None:
    for path in commands():
        assert max(map(len, rdd("help", *path).out.splitlines())) <= 80


@pytest.mark.parametrize("columns", ["", "0", "-3", "x", "99999999999999999999", "٣"])
def test_invalid_width_is_ignored(rdd: Rdd, columns: str) -> None:
    assert rdd("--help", COLUMNS=columns).out == rdd("--help").out


def test_tiny_width_still_prints_everything(rdd: Rdd) -> None:
    words = " ".join(rdd("--help").out.split())
    assert " ".join(rdd("--help", COLUMNS="1").out.split()) == words


ROWS = (("ID", "NAME", "COMMAND"), ("1", "n" * 30, "c" * 50), ("2", "web\x1b[31m", "sh"))


def test_table_is_complete_without_a_terminal() -> None:
    lines = table(ROWS).splitlines()
    assert lines[1].endswith("c" * 50)
    assert "\\x1b[31m" in lines[2]


@pytest.mark.parametrize("width", [30, 60, 80])
def test_table_fits_the_terminal_and_marks_what_is_cut(width: int) -> None:
    lines = table(ROWS, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["ID", "NAME", "COMMAND"]
    assert "…" in lines[1]


def test_first_column_is_what_commands_take_and_is_never_cut() -> None:
    rows = (("ID", "NAME"), ("i" * 60, "n" * 60))
    assert "i" * 60 in table(rows, width=80)
    assert "i" * 60 in table(rows, width=40)


@pytest.mark.parametrize("width", [3, 10, 20])
def test_rows_of_a_table_for_which_the_terminal_is_too_narrow_become_blocks(width: int) -> None:
    text = table(ROWS, width=width)
    blocks = [block.split() for block in text.split("\n\n")]
    assert blocks == [
        ["ID", "1", "NAME", "n" * 30, "COMMAND", "c" * 50],
        ["ID", "2", "NAME", "web\\x1b[31m", "COMMAND", "sh"],
    ]


def test_empty_table_on_a_narrow_terminal_has_its_headers() -> None:
    assert table((("IDENTIFIER", "NAME"),), width=5) == "IDENTIFIER NAME\n"
    assert (
        table((("IDENTIFIER", "IDENTIFIED", "NAME"),), width=21) == "IDENTIFIER IDENTIFIED\nNAME\n"
    )


COMMAND = "rdd --instance a1 ctl delete limavm,configmap rd --with=more words than fit in a line"
MESSAGE = "The Docker socket does not respond, whatever the reason for that may be: " * 2
FINDINGS: list[Object] = [
    {
        "name": name,
        "healthy": healthy,
        "reason": "R",
        "message": MESSAGE,
        "evidence": [MESSAGE, "/a/very/long/path" * 8],
        "nextStep": COMMAND,
    }
    for name, healthy in (("engine", "False"), ("docker-context", "True"), ("app", "Unknown"))
]
SCREEN: Object = {
    "parts": [
        {"name": "controlPlane", "state": "running", "detail": MESSAGE},
        {"name": "containerEngine", "state": "not connected", "detail": MESSAGE},
        {"name": "kubeContext", "state": "-", "detail": ""},
    ],
    "ports": [{"host": "[::]:8080", "container": "web", "port": "80/tcp"}],
    "problems": FINDINGS[:1],
    "nextStep": COMMAND,
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "render",
    [
        pytest.param(lambda width: doctor.render(FINDINGS, width), id="doctor"),
        pytest.param(lambda width: status.render(SCREEN, width), id="status"),
        pytest.param(
            lambda width: status.render({**SCREEN, "problems": []}, width), id="next step"
        ),
    ],
)
def test_screens_fit_the_terminal_and_keep_commands_whole(
    render: Callable[[int], str], width: int
) -> None:
    text = render(width)
    assert text.split() == render(0).split()  # nothing is lost
    assert any(line.endswith(COMMAND) for line in text.splitlines())
    for line in text.splitlines():
        assert len(line) <= width or len(line.split(": ")[-1].strip()) > width - 10, line


def test_screens_have_one_line_per_entry_in_a_pipe() -> None:
    assert f"✗ engine          {MESSAGE.strip()}\n" in doctor.render(FINDINGS)
    assert f"  engine: {MESSAGE.strip()}\n" in status.render(SCREEN)


def test_long_word_is_whole_and_a_command_moves_to_its_own_line() -> None:
    text = f"next step: {unbroken('docker context update rdd-2')}"
    assert filled(text, 30) == ["next step:", "docker context update rdd-2"]
    assert filled(text, 0) == ["next step: docker context update rdd-2"]
    assert filled("a " + "b" * 50, 30) == ["a", "b" * 50]


def test_log_messages_on_a_terminal_are_filled_and_keep_commands_whole() -> None:
    message = "instance does not exist; `rdd --instance a1 start` creates it\nnext: x"
    lines = terminal_line("error", message, 40).splitlines()
    assert lines == [
        "\x1b[31mERRO\x1b[0m instance does not exist;",
        "     `rdd --instance a1 start` creates",
        "     it",
        "next: x",
    ]
    assert terminal_line("info", "a  b ", 0) == "\x1b[36mINFO\x1b[0m a  b"


def test_last_column_moves_below_if_there_is_no_space_beside() -> None:
    rows = [("name", "state", "some longer text"), ("b", "c", "")]
    assert columns(rows, 0) == ["  name  state  some longer text", "  b     c"]
    assert columns(rows, 24) == ["  name  state", "      some longer text", "  b  c"]


@pytest.fixture
def terminal() -> Iterator[TextIO]:
    """A real terminal of 50 columns; what is written is read by `shown`."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 50))
    with os.fdopen(slave, "w") as stream:
        stream.master = master  # type: ignore[attr-defined]
        yield stream
    os.close(master)


def test_help_on_a_terminal_fits_its_width(terminal: TextIO) -> None:
    from rdd.cli.framework.entry import run

    environ = {"HOME": "/"}
    assert run(["rdd", "help", "version"], environ, stdout=terminal, stderr=io.StringIO()) == 0
    shown = os.read(terminal.master, 65536).decode()  # type: ignore[attr-defined]
    assert "Usage:" in shown
    assert max(map(len, shown.splitlines())) <= 50
