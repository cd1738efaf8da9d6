# SPDX-License-Identifier: Apache-2.0
"""Every command with odd arguments and flags: one line, a documented exit code, no traceback.

The control plane does not run and cannot be started. Raw commands pass their arguments on, and
those that run in the foreground have tests of their own.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rdd.cli.commands.declarations import ROOT
from rdd.cli.framework.entry import run
from rdd.cli.framework.types import Command, Group
from rdd.daemon.service import arguments
from rdd.instance import Instance

Path_ = tuple[str, ...]
FOREGROUND = {("hostagent",), ("service", "serve")}
FOLLOWS = "follow"  # would wait for a log for ever
ODD = (
    "",
    "/",
    "../..",
    "a\nb",
    "\udcff",
    "ä",
    "-",
    "x" * 5000,
    "a=b",
    "/dev/null",
    "name@",
    "%s{}",
)
VALUES = ("", "soon", "-1", "0", "99999999999999999999s", "\udcff", "a\nb", "x/y", "=")


def leaves(node: Group | Command = ROOT, path: Path_ = ()) -> Iterator[tuple[Path_, Command]]:
    if isinstance(node, Group):
        for member in node.members:
            yield from leaves(member, (*path, member.name))
    elif not node.raw and path not in FOREGROUND:
        yield path, node


def shapes(command: Command) -> Iterator[list[str]]:
    """Yield odd command lines."""
    enough = ["x"] * command.min_args
    yield from ([], ["--nope"], ["--help"], ["x"] * 20)
    if command.max_args != 0:
        for word in ODD:
            yield [word] * max(command.min_args, 1)
            if command.max_args is None or command.max_args > 1:
                yield ["x", word]
    for flag in command.flags:
        if flag.name != FOLLOWS:
            yield [*enough, f"--{flag.name}"]
            yield from ([*enough, f"--{flag.name}={value}"] for value in VALUES)


def complaint(code: int, text: str) -> str:
    """Return what is wrong with the end of a command."""
    if code not in (0, 1, 3, 4, 5):
        return f"exit code {code}"
    if code and text.count("\n") != 1:
        return f"{text.count(chr(10))} lines"
    marks = ("unexpected error", "Traceback", "Errno", " object at 0x", "denied the request")
    return next((mark for mark in marks if mark in text), "")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home and an empty working directory."""
    (tmp_path / "home").mkdir()
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield tmp_path
        monkeypatch.undo()


@pytest.mark.parametrize("exists", [False, True], ids=["no instance", "stopped"])
@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*leaf, id=" ".join(leaf[0])) for leaf in leaves()]
)
def test_odd_arguments_end_in_one_line(
    place: Path, path: Path_, command: Command, exists: bool
) -> None:
    if exists:
        arguments.create(Instance("2", place / "home"))
    environ = {"HOME": str(place / "home"), "PATH": "/nonexistent"}
    found = []
    for words in shapes(command):
        with (
            (place / "out").open("w", errors="surrogateescape") as out,
            (place / "err").open("w+", errors="backslashreplace") as err,
        ):
            code = run(["/nonexistent/rdd", *path, *words], dict(environ), stdout=out, stderr=err)
            err.seek(0)
            if why := complaint(code, text := err.read()):
                found.append((why, words, text[-300:]))
    assert found == []


def test_no_command_creates_a_home_that_does_not_exist(place: Path) -> None:
    home = place / "mistyped"
    for path, command in leaves():
        words = [*path, *["x"] * command.min_args]
        with (place / "out").open("w") as out, (place / "err").open("w+") as err:
            run(["/nonexistent/rdd", *words], {"HOME": str(home)}, stdout=out, stderr=err)
            err.seek(0)
            assert complaint(0, err.read()) == "", words
        assert not home.exists(), words
