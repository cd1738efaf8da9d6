# SPDX-License-Identifier: Apache-2.0
"""Which kubectl runs, and what `rdd ctl` adds to it."""

from pathlib import Path

import pytest
from tests.unit.cli.conftest import Rdd

from rdd.cli.commands.ctl import asks_for_help
from rdd.cli.commands.kubectl import choose
from rdd.cli.commands.wait_condition import _FLAGS, Goal, parse_goal
from rdd.cli.framework import autostart
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.flags import Parser
from rdd.cli.framework.types import Call


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "kubectl"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_real_kubectl_comes_first_and_the_built_in_last(tool: Path, tmp_path: Path) -> None:
    assert choose("", (str(tmp_path), str(tool.parent))) == tool
    assert choose("", (str(tmp_path),)) is None
    assert choose("builtin", (str(tool.parent),)) is None
    assert choose(str(tool), ()) == tool


@pytest.mark.parametrize("wish", ["kubectl", "/does/not/exist", "built-in"])
def test_rejects_override_that_is_not_a_program(wish: str) -> None:
    with pytest.raises(CommandError, match=r"RDD_KUBECTL is .*absolute path of a kubectl"):
        choose(wish, ())


def test_rejects_override_that_is_rdd_itself(tmp_path: Path) -> None:
    link = tmp_path / "kubectl"
    target = tmp_path / "rdd"
    target.write_text("#!/bin/sh\n")
    target.chmod(0o755)
    link.symlink_to(target)
    with pytest.raises(CommandError, match="is rdd itself"):
        choose(str(link), ())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], True),
        (["help", "get"], True),
        (["get", "-h"], True),
        (["get", "--help"], True),
        (["get", "ns"], False),
        (["create", "deployment", "d", "--", "x", "-h"], False),
    ],
)
def test_help_starts_nothing(words: list[str], expected: bool) -> None:
    assert asks_for_help(words) is expected


def test_help_of_the_built_in_client(rdd: Rdd) -> None:
    shown = rdd("ctl", RDD_KUBECTL="builtin")
    assert shown.code == 0 and "\n  get            Show objects\n" in shown.out
    shown = rdd("ctl", "get", "--help", RDD_KUBECTL="builtin")
    assert "Usage:\n  kubectl get TYPE" in shown.out and "--sort-by string" in shown.out
    shown = rdd("--log-level=debug", "kubectl", "config", "view", "-h", RDD_KUBECTL="builtin")
    assert shown.out.startswith("Show the merged configuration\n")


def test_kubeconfig_of_the_instance_is_forced(
    rdd: Rdd, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Call] = []

    def ensure_running(call: Call) -> None:
        started.append(call)
        call.instance.config.parent.mkdir(parents=True)
        call.instance.config.write_text("current-context: ours\n")

    monkeypatch.setattr(autostart, "ensure_running", ensure_running)
    (home / "other").write_text("current-context: theirs\n")
    variables = {"RDD_KUBECTL": "builtin", "KUBECONFIG": str(home / "other")}
    assert rdd("kubectl", "config", "current-context", **variables).out == "theirs\n"
    assert not started
    assert rdd("ctl", "config", "current-context", **variables).out == "ours\n"
    assert len(started) == 1


def goal(*words: str) -> Goal:
    parser = Parser(_FLAGS, "x")
    args = parser.parse(words)
    return parse_goal(args, parser.result())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["app/a"], r"accepts 2 arg\(s\), received 1"),
        (["app", "Ready"], 'invalid resource "app"'),
        (["/a", "Ready"], 'invalid resource "/a"'),
        (["app/", "Ready"], 'invalid resource "app/"'),
        (["app/a", "=True"], "the type must not be empty"),
        (["app/a", "Ready="], "the status must not be empty"),
        (["app/a", "Ready", "--since=yesterday"], 'invalid --since "yesterday"'),
    ],
)
def test_rejects_invalid_goals(words: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        goal(*words)


CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Done",
    "lastTransitionTime": "2026-01-02T03:04:05Z",
}


@pytest.mark.parametrize(
    ("words", "is_met"),
    [
        (["Ready"], True),
        (["Ready=True"], True),
        (["Ready=False"], False),
        (["ready"], False),
        (["Other"], False),
        (["Ready", "--reason=Done"], True),
        (["Ready", "--reason=done"], False),
        (["Ready", "--since=2026-01-02T03:04:04Z"], True),
        (["Ready", "--since=2026-01-02T03:04:05Z"], False),
        (["Ready", "--since=2026-01-02T05:04:04+02:00"], True),
    ],
)
def test_condition_must_match_every_requirement(words: list[str], is_met: bool) -> None:
    assert goal("app/a", *words).is_met({"status": {"conditions": [CONDITION]}}) is is_met
    assert not goal("app/a", *words).is_met({})


def test_condition_without_a_time_is_not_recent() -> None:
    undated = {key: value for key, value in CONDITION.items() if key != "lastTransitionTime"}
    wanted = goal("app/a", "Ready", "--since=2020-01-01T00:00:00Z")
    assert not wanted.is_met({"status": {"conditions": [undated]}})
