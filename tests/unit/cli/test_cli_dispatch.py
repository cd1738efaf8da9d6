# SPDX-License-Identifier: Apache-2.0
"""From words to a command, on a table made for the test."""

import pytest

from rdd.cli.framework.dispatch import match
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Command, Flag, Group, visible

ROOT = Group(
    "rdd",
    "",
    members=(
        Command("one", "m", "", usage="NAME", min_args=1, max_args=1),
        Command("few", "m", "", usage="NAME [TAG]", min_args=1, max_args=2),
        Command("many", "m", "", usage="NAME…", min_args=1, max_args=None),
        Command("raw", "m", "", raw=True, flags=(Flag("never", ""),)),
        Group("outer", "", aliases=("o",), members=(Group("inner", "", members=(
            Command("leaf", "m", "", aliases=("l",), flags=(Flag("port", "", kind="int"),)),
        )),)),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "path", "args"),
    [
        (["one", "a"], ("rdd", "one"), ("a",)),
        (["few", "a", "b"], ("rdd", "few"), ("a", "b")),
        (["many", "a", "b", "c"], ("rdd", "many"), ("a", "b", "c")),
        (["one", "--", "-a"], ("rdd", "one"), ("-a",)),
        (["raw", "--never", "-h", "--"], ("rdd", "raw"), ("--never", "-h", "--")),
        (["--log-level", "info", "raw", "x"], ("rdd", "raw"), ("x",)),
        (["o", "inner", "l"], ("rdd", "outer", "inner", "leaf"), ()),
        (["outer"], ("rdd", "outer"), ()),
        ([], ("rdd",), ()),
    ],
)
def test_words_are_dispatched_to_a_command(
    words: list[str], path: tuple[str, ...], args: tuple[str, ...]
) -> None:
    found = match(words, root=ROOT)
    assert (found.path, found.args) == (path, args)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one"], "rdd one accepts 1 arg(s), received 0; usage: rdd one NAME"),
        (["few"], "rdd few accepts between 1 and 2 arg(s), received 0; usage: rdd few NAME [TAG]"),
        (["many"], "rdd many requires at least 1 arg(s), received 0; usage: rdd many NAME…"),
        (["outer", "x"], 'unknown command "x" for "rdd outer"; valid commands: inner'),
        (["--port=1", "outer", "inner", "leaf"], "unknown flag: --port"),
    ],
)
def test_invalid_words_are_rejected_with_a_reason(words: list[str], message: str) -> None:
    with pytest.raises(CommandError) as caught:
        match(words, root=ROOT)
    assert message in str(caught.value)


def test_global_flag_before_the_command_counts_and_a_later_one_wins() -> None:
    found = match(["--log-level=info", "o", "--log-level=debug", "inner", "leaf"], root=ROOT)
    assert found.flags.text("log-level") == "debug"


def test_developer_flags_are_shown_in_developer_mode() -> None:
    flags = [
        Flag("b", "", visibility="developer"),
        Flag("c", "", visibility="hidden"),
        Flag("a", ""),
    ]
    assert [flag.name for flag in visible(flags, developer=False)] == ["a"]
    assert [flag.name for flag in visible(flags, developer=True)] == ["a", "b"]
