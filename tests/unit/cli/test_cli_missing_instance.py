# SPDX-License-Identifier: Apache-2.0
"""Reading commands never create an instance; they name the nearest one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rdd.daemon.service import arguments
from rdd.instance import Instance

Rdd = Callable[..., Any]

READING = (
    ["ps"], ["images"], ["volumes"], ["logs", "web"], ["exec", "web", "ls"],
    ["get"], ["get", "running"], ["history"], ["undo"], ["disk"], ["disk", "prune"],
    ["settings", "export"], ["restart"], ["reset", "-y"], ["image", "rm", "a"],
    ["volume", "rm", "a"], ["volume", "backup", "a", "b"], ["snapshot", "ls"],
    ["snapshot", "create", "a"], ["snapshot", "rm", "a"], ["snapshot", "restore", "a"],
)  # fmt: skip


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("flag", [[], ["--instance", "2"], ["--instance", "work"]], ids=str)
def test_reading_command_creates_no_instance(
    rdd: Rdd, home: Path, words: list[str], flag: list[str]
) -> None:
    outcome = rdd(*flag, *words)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1
    assert "does not exist; `rdd " in outcome.err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("words", [["stop"], ["delete", "-y"]], ids=" ".join)
def test_stop_and_delete_of_nothing_create_no_instance(
    rdd: Rdd, home: Path, words: list[str]
) -> None:
    assert rdd(*words).code == 0
    outcome = rdd("--instance", "work", *words)
    assert outcome.code == 1
    assert "`rdd --instance work start` creates it" in outcome.err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["statsu"], 'did you mean \\"rdd --instance work status\\"?'),
        (["shell"], "`rdd --instance work start`"),
        (["cache", "rm", "abc"], "`rdd --instance work cache ls`"),
        (["service", "restore"], "`rdd --instance work service create`"),
        (["tools", "remove", "docker"], "`rdd --instance work tools ls`"),
        (["limavm", "log", "rd"], "`rdd --instance work limavm list`"),
    ],
    ids=str,
)
def test_suggested_commands_select_the_instance(rdd: Rdd, words: list[str], command: str) -> None:
    assert command in rdd("--instance", "work", *words).err
    assert command in rdd(*words, RDD_INSTANCE="work").err
    assert command.replace("--instance work ", "") in rdd(*words).err


@pytest.mark.parametrize("verb", [["get", "pods"], ["-n", "x", "describe", "ns"], ["version"]])
def test_ctl_with_a_reading_verb_rejects_a_named_instance(
    rdd: Rdd, home: Path, verb: list[str]
) -> None:
    arguments.create(Instance("work", home))
    outcome = rdd("--instance", "worky", "ctl", *verb)
    assert outcome.code == 1
    assert 'instance \\"worky\\" does not exist; did you mean \\"work\\"?' in outcome.err
    outcome = rdd("ctl", *verb, RDD_INSTANCE="other")
    assert "`rdd --instance other start` creates it; existing instances: work" in outcome.err
    assert not Instance("worky", home).dir.exists()
    assert not Instance("other", home).dir.exists()


def test_ls_of_nothing_prints_the_header_and_creates_nothing(rdd: Rdd, home: Path) -> None:
    assert rdd("ls").out == "NAME   STATE   ENGINE   PORTS   DISK   MEMORY\n"
    assert rdd("ls", "-o", "json").out == "[]\n"
    assert list(home.iterdir()) == []


def test_ls_shows_stopped_instances_and_ignores_other_directories(rdd: Rdd, home: Path) -> None:
    for suffix in ("work", "2"):
        arguments.create(Instance(suffix, home))
    share = Instance("2", home).dir.parent
    (share / "rancher-desktop-NOT VALID").mkdir()
    (share / "rancher-desktop-empty").mkdir()
    (share / "rancher-desktop-file").write_text("")
    lines = rdd("ls").out.splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [
        ["2", "stopped", "-", "-"],
        ["work", "stopped", "-", "-"],
    ]


def test_ls_rejects_an_unknown_format(rdd: Rdd) -> None:
    outcome = rdd("ls", "-o", "xml")
    assert (outcome.code, outcome.out) == (1, "")
