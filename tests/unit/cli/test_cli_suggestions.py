# SPDX-License-Identifier: Apache-2.0
"""Suggestions for mistyped names, and texts that fit the terminal."""

from collections.abc import Callable
from typing import Any

import pytest

from rdd.cli.commands.app.properties import find, spec_schema
from rdd.cli.commands.table import ROOT
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.suggestions import nearest
from rdd.cli.framework.tables import table
from rdd.cli.framework.types import Command, Group
from rdd.kinds.app import App
from rdd.kinds.crd import definition_of

Rdd = Callable[..., Any]

NAMES = ("start", "status", "stop", "ps", "set", "virtualMachine.cpus", "virtualMachine.memory")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("statsu", "status", id="swapped neighbours"),
        pytest.param("starrt", "start", id="doubled letter"),
        pytest.param("sta", "start", id="incomplete"),
        pytest.param("stat", "status", id="incomplete before one letter less"),
        pytest.param("STOP", "stop", id="upper case"),
        pytest.param("p", "", id="one letter is too little"),
        pytest.param("pss", "ps", id="one letter more"),
        pytest.param("cpu", "virtualMachine.cpus", id="last part of a dotted name"),
        pytest.param("virtualMachine.memry", "virtualMachine.memory", id="dotted"),
        pytest.param("virtualmachine.cpus", "virtualMachine.cpus", id="case of a dotted name"),
        pytest.param("kubernetes", "", id="nothing near"),
        pytest.param("", "", id="empty"),
        pytest.param("s" * 1_000_000, "", id="huge"),
    ],
)
def test_nearest_name(given: str, expected: str) -> None:
    assert nearest(given, NAMES) == expected


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["statsu"], 'did you mean "rdd status"?'),
        (["service", "stat"], 'did you mean "rdd service status"?'),
        (["svc", "dele"], 'did you mean "rdd service delete"?'),
        (["help", "versi"], 'did you mean "rdd version"?'),
        (["status", "--ouput=json"], 'did you mean "--output"?'),
        (["lima", "lis"], 'did you mean "rdd limavm list"?'),
        (["--log-levle", "debug"], 'did you mean "--log-level"?'),
    ],
)
def test_mistyped_command_or_flag_gets_a_suggestion(rdd: Rdd, words: list[str], hint: str) -> None:
    outcome = rdd(*words, "--log-format=json")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1
    assert hint.replace('"', '\\"') in outcome.err


@pytest.mark.parametrize("path", ["cpus", "virtualMachine.cpu", "virtualmachine.cpus"])
def test_mistyped_property_gets_a_suggestion_after_the_list(path: str) -> None:
    with pytest.raises(CommandError) as error:
        find(path, spec_schema(definition_of(App)))
    assert "; valid properties: " in str(error.value)
    assert str(error.value).endswith('; did you mean "virtualMachine.cpus"?')


def commands(node: Group | Command = ROOT, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if isinstance(node, Command):
        return [path]
    return [path] + [p for m in node.members for p in commands(m, (*path, m.name))]


@pytest.mark.parametrize("columns", ["60", "80"])
def test_every_help_text_fits_the_terminal(rdd: Rdd, columns: str) -> None:
    too_long = {
        (*path, line)
        for path in commands()
        for line in rdd("help", *path, COLUMNS=columns).out.splitlines()
        # A long usage or flag name is not broken.
        if len(line) > int(columns) and not line.startswith(("  rdd ", "  -", "      --"))
    }
    assert too_long == set()


@pytest.mark.parametrize("columns", ["", "0", "-3", "x", "99999999999999999999", "٣"])
def test_invalid_width_is_ignored(rdd: Rdd, columns: str) -> None:
    assert rdd("--help", COLUMNS=columns).out == rdd("--help").out


def test_tiny_width_still_prints_everything(rdd: Rdd) -> None:
    assert "completion" in rdd("--help", COLUMNS="1").out


def test_ctl_and_limavm_are_listed_and_hostagent_is_not(rdd: Rdd) -> None:
    out = rdd("--help").out
    assert "\n  ctl " in out
    assert "\n  limavm " in out
    assert "hostagent" not in out


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


def test_table_on_a_terminal_that_is_too_narrow_keeps_short_columns() -> None:
    assert table((("ID", "NAME"), ("1", "abc")), width=3) == "ID   NAME\n1    abc\n"
