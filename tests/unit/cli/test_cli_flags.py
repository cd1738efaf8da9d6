# SPDX-License-Identifier: Apache-2.0
"""Parsing of flags."""

import pytest

from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.flags import Parser
from rdd.cli.framework.types import Flag, Value

FLAGS = (
    Flag("output", "", short="o", default="table"),
    Flag("follow", "", short="f", kind="bool"),
    Flag("wait", "", short="w", kind="bool", default="true"),
    Flag("port", "", short="p", kind="int", default="6443"),
    Flag("timeout", "", kind="duration", default="5m"),
    Flag("version", "", implied="true"),
    Flag("secret", "", visibility="hidden"),
)


def parse(*args: str) -> tuple[dict[str, Value], list[str]]:
    parser = Parser(FLAGS, "rdd x")
    rest = parser.parse(args)
    return parser.values, rest


@pytest.mark.parametrize(
    ("args", "values", "rest"),
    [
        pytest.param([], {}, [], id="nothing"),
        pytest.param(["--output", "json"], {"output": "json"}, [], id="value as the next word"),
        pytest.param(["--output=json"], {"output": "json"}, [], id="value after ="),
        pytest.param(["--output="], {"output": ""}, [], id="empty value"),
        pytest.param(["--output=a=b"], {"output": "a=b"}, [], id="value with ="),
        pytest.param(["--output", "--wait"], {"output": "--wait"}, [], id="value like a flag"),
        pytest.param(["-o", "json"], {"output": "json"}, [], id="short, next word"),
        pytest.param(["-ojson"], {"output": "json"}, [], id="short, joined"),
        pytest.param(["-o=json"], {"output": "json"}, [], id="short, ="),
        pytest.param(["-fw"], {"follow": True, "wait": True}, [], id="cluster"),
        pytest.param(["-fojson"], {"follow": True, "output": "json"}, [], id="cluster with value"),
        pytest.param(["-w=false"], {"wait": False}, [], id="short boolean with value"),
        pytest.param(["--wait"], {"wait": True}, [], id="bare boolean"),
        pytest.param(["--wait=0"], {"wait": False}, [], id="boolean with value"),
        pytest.param(["--wait", "false"], {"wait": True}, ["false"], id="boolean takes no word"),
        pytest.param(["--version"], {"version": "true"}, [], id="implied value"),
        pytest.param(["--version=raw"], {"version": "raw"}, [], id="instead of implied value"),
        pytest.param(["--port", "-1"], {"port": -1}, [], id="negative number"),
        pytest.param(["--timeout=1m30s"], {"timeout": 90.0}, [], id="duration"),
        pytest.param(["a", "-f", "b"], {"follow": True}, ["a", "b"], id="mixed"),
        pytest.param(["-f", "--", "-w", "--"], {"follow": True}, ["-w", "--"], id="double hyphen"),
        pytest.param(["-"], {}, ["-"], id="single hyphen is an argument"),
        pytest.param(["-o", "a", "-o", "b"], {"output": "b"}, [], id="last one wins"),
    ],
)
def test_flags_and_arguments(args: list[str], values: dict[str, Value], rest: list[str]) -> None:
    assert parse(*args) == (values, rest)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--nope"], 'unknown flag: --nope for "rdd x"; valid flags: --follow, --output, '),
        (["--nope=1"], "unknown flag: --nope for"),
        (["---"], "unknown flag: --- for"),
        (["-x"], "unknown shorthand flag: 'x' in -x for \"rdd x\"; valid flags: "),
        (["-fx"], "unknown shorthand flag: 'x' in -fx"),
        (["--output"], 'flag needs an argument: --output for "rdd x"'),
        (["-o"], "flag needs an argument: 'o' in -o for \"rdd x\""),
        (["--wait=maybe"], 'invalid argument "maybe" for "-w, --wait" flag: expected boolean'),
        (["--port=x"], 'invalid argument "x" for "-p, --port" flag: expected integer'),
        (["--port=1_0"], 'invalid argument "1_0" for "-p, --port" flag: expected integer'),
        (["--timeout=5"], 'invalid argument "5" for "--timeout" flag: expected a duration'),
        (
            ["--instance", "x"],
            "unknown flag: --instance; it is only accepted as the first argument",
        ),
    ],
)
def test_invalid_flags_are_reported_in_one_line(args: list[str], message: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse(*args)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_flag_not_given_has_its_default() -> None:
    flags = Parser(FLAGS, "rdd x").result()
    assert flags.text("output") == "table"
    assert flags.truth("wait") is True
    assert flags.truth("follow") is False
    assert flags.integer("port") == 6443
    assert flags.seconds("timeout") == 300
    assert flags.given == frozenset()


def test_flag_given_with_its_default_value_counts_as_given() -> None:
    parser = Parser(FLAGS, "rdd x")
    parser.parse(["--output=table"])
    assert parser.result().given == {"output"}


def test_parsing_can_end_at_the_first_argument() -> None:
    parser = Parser(FLAGS, "rdd x")
    assert parser.parse(["-f", "a", "-w"], until_argument=True) == ["a", "-w"]
    assert parser.values == {"follow": True}
