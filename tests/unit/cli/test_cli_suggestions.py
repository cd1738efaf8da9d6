# SPDX-License-Identifier: Apache-2.0
"""Suggestions for mistyped names."""

from collections.abc import Callable
from typing import Any

import pytest

from rdd.cli.commands.app.properties import find, spec_schema
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.suggestions import nearest
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


def test_ctl_and_limavm_are_listed_and_hostagent_is_not(rdd: Rdd) -> None:
    out = rdd("--help").out
    assert "\n  ctl " in out
    assert "\n  limavm " in out
    assert "hostagent" not in out
