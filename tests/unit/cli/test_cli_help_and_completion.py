# SPDX-License-Identifier: Apache-2.0
"""Help texts and completion candidates, both made from the command table."""

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rdd.cli.commands.declarations import ROOT
from rdd.cli.framework.types import Command, Group
from rdd.daemon.service import arguments
from rdd.instance import Instance

Rdd = Callable[..., Any]


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"], ["--log-level=info"]])
def test_help_of_the_root_goes_to_stdout(rdd: Rdd, words: list[str]) -> None:
    outcome = rdd(*words)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("Control plane of a container desktop\n")
    assert "Usage:\n  rdd [--instance NAME] COMMAND\n" in outcome.out


@pytest.mark.parametrize(
    "words", [["svc"], ["svc", "--help"], ["help", "svc"], ["help", "service"]]
)
def test_help_of_a_group_lists_its_commands(rdd: Rdd, words: list[str]) -> None:
    outcome = rdd(*words)
    assert outcome.code == 0
    assert "Aliases:\n  service, svc\n" in outcome.out
    assert re.search(r"\n  paths +Print the directories and files of an instance\n", outcome.out)


@pytest.mark.parametrize("words", [["svc", "paths", "-h"], ["help", "svc", "paths"]])
def test_help_of_a_command_shows_arguments_flags_and_global_flags(
    rdd: Rdd, words: list[str]
) -> None:
    out = rdd(*words).out
    assert "Usage:\n  rdd service paths [KEY] [flags]\n" in out
    assert "  -o, --output string  output format: table, json or shell (default table)\n" in out
    assert "Global flags:\n      --log-format string  " in out


def test_help_wins_over_a_wrong_number_of_arguments(rdd: Rdd) -> None:
    assert rdd("completion", "--help").code == 0


def test_help_of_a_raw_command_shows_no_flags_of_ours(rdd: Rdd) -> None:
    out = rdd("help", "kubectl").out
    assert "Usage:\n  rdd kubectl [ARGS…]\n" in out
    assert "Flags" not in out


@pytest.mark.parametrize(("mode", "shown"), [("1", True), ("0", False)])
def test_yq_is_shown_in_developer_mode_only(rdd: Rdd, mode: str, shown: bool) -> None:
    assert ("\n  yq " in rdd(RDD_DEVELOPER_MODE=mode).out) is shown


@pytest.mark.parametrize("mode", ["0", "1"])
def test_hidden_command_is_never_shown(rdd: Rdd, mode: str) -> None:
    assert "__complete" not in rdd(RDD_DEVELOPER_MODE=mode).out


def completed(rdd: Rdd, *words: str, **variables: str) -> list[str]:
    lines = rdd("__complete", *words, **variables).out.splitlines()
    return [line.split("\t")[0] for line in lines]


COMMANDS = sorted(member.name for member in ROOT.members if member.visibility == "shown")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([""], COMMANDS, id="commands"),
        pytest.param([], COMMANDS, id="no words"),
        pytest.param(["ve"], ["version"], id="prefix"),
        pytest.param(["service", "st"], ["start", "status", "stop"], id="group"),
        pytest.param(["svc", "p"], ["paths"], id="alias"),
        pytest.param(["svc", "paths", "d"], ["dir", "docker_socket"], id="arguments of a command"),
        pytest.param(["completion", ""], ["bash", "fish", "zsh"], id="shells"),
        pytest.param(["--i"], ["--instance"], id="instance comes first"),
        pytest.param(["version", "--i"], [], id="instance only first"),
        pytest.param(["--instance", "x", "ve"], ["version"], id="after the instance"),
        pytest.param(["--instance=x", "ve"], ["version"], id="after the instance with ="),
        pytest.param(["version", "--log"], ["--log-format", "--log-level"], id="global flags"),
        pytest.param(["svc", "paths", "--o"], ["--output"], id="flags of a command"),
        pytest.param(["svc", "paths", "-o", "j"], ["json"], id="value of a short flag"),
        pytest.param(["svc", "paths", "--output", "j"], ["json"], id="value of a flag"),
        pytest.param(["svc", "paths", "--output=j"], ["--output=json"], id="value after ="),
        pytest.param(
            ["svc", "paths", "--output", "=", "j"], ["json"], id="value as bash splits it"
        ),
        pytest.param(["--log-level", "debug", "ve"], ["version"], id="behind a global flag"),
        pytest.param(["-h", "ve"], ["version"], id="behind a boolean flag"),
        pytest.param(["svc", "paths", "-o", "json", "tl"], ["tls_dir"], id="behind a flag"),
        pytest.param(["yq", "ge"], [], id="another program's arguments"),
        pytest.param(["nope", ""], [], id="unknown command"),
        pytest.param(["version", ""], [], id="command without arguments"),
    ],
)
def test_candidates(rdd: Rdd, words: list[str], expected: list[str]) -> None:
    assert completed(rdd, *words) == expected


def test_bash_offers_all_values_right_after_the_equals_sign(rdd: Rdd) -> None:
    assert completed(rdd, "svc", "paths", "--output", "=") == ["table", "json", "shell"]


def test_developer_mode_completes_developer_commands(rdd: Rdd) -> None:
    assert rdd("__complete", "y", RDD_DEVELOPER_MODE="1").out == "yq\tRun the yq found on PATH\n"
    assert rdd("__complete", "y").out == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_calls_rdd(rdd: Rdd, shell: str) -> None:
    outcome = rdd("completion", shell)
    assert outcome.code == 0
    assert " __complete " in outcome.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["get", "virtualMachine."],
            [f"virtualMachine.{n}" for n in ("cpus", "disk", "memory", "type")],
        ),
        (
            ["set", "containerE"],
            [f"containerEngine.{n}=" for n in ("logs.maxFiles", "logs.maxSize", "name", "version")],
        ),
        (["set", "running=true", "kubernetes.e"], ["kubernetes.enabled="]),
        (
            ["set", "containerEngine.name="],
            [f"containerEngine.name={n}" for n in ("moby", "containerd")],
        ),
        (["set", "running=f"], ["running=false"]),
        (["set", "virtualMachine.cpus="], []),
        (["set", "nope="], []),
        (["--instance", ""], ["2", "work"]),
        (["--instance=w"], ["--instance=work"]),
        (["logs", ""], []),
        (["image", "rm", ""], []),
        (["limavm", "start", ""], []),
        (["kubectl", "des"], ["describe"]),
        (["kubectl", "--context", ""], ["one", "two"]),
        (["kubectl", "config", "use-context", "t"], ["two"]),
        (["ctl", "get", ""], []),
        (["help", "service", "st"], ["start", "status", "stop"]),
        (["help", "nope", ""], []),
        (["service", "restore", ""], ["20260101T000000Z.db"]),
        (["service", "quarantine", "restore", ""], ["core/pods/a"]),
        (["service", "quarantine", "rm", "x"], []),
        (["cache", "export", ""], []),
    ],
)
def test_candidates_that_depend_on_the_state(
    rdd: Rdd, home: Path, words: list[str], expected: list[str]
) -> None:
    for suffix in ("2", "work"):
        arguments.create(Instance(suffix, home))
    instance = Instance("2", home)
    instance.backup_dir.mkdir(parents=True)
    (instance.backup_dir / "20260101T000000Z.db").touch()
    instance.quarantine_file.write_text('["core/pods/a"]')
    config = home / "config"
    config.write_text("contexts: [{name: one, context: {}}, {name: two, context: {}}]\n")
    found = completed(rdd, *words, RDD_KUBECTL="builtin", KUBECONFIG=str(config))
    assert found == expected


def test_completion_creates_no_instance(rdd: Rdd, home: Path) -> None:
    for words in (["logs", ""], ["ctl", "get", ""], ["--instance", ""], ["set", ""]):
        assert rdd("__complete", *words).code == 0
    assert list(home.iterdir()) == []


WITHOUT_CANDIDATES = re.compile(r"FILE|NAME$|NAME TEMPLATE$|ARGS|INSTANCE|options")


def test_every_argument_is_completed_unless_it_is_new_or_a_file() -> None:
    def leaves(node: Group | Command, path: tuple[str, ...]) -> Iterator[tuple[str, Command]]:
        if isinstance(node, Command):
            yield " ".join(path), node
            return
        for member in node.members:
            yield from leaves(member, (*path, member.name))

    missing = {
        f"{path} {command.usage}"
        for path, command in leaves(ROOT, ())
        if command.max_args != 0
        and not command.raw
        and not command.completes
        and not hasattr(importlib.import_module(command.module), "complete")
        and not WITHOUT_CANDIDATES.search(command.usage)
    }
    assert missing == set()
