# SPDX-License-Identifier: Apache-2.0
"""`rdd service paths`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.programs import run_program

from rdd.cli.commands.service.paths import shell_quote

Rdd = Callable[..., Any]

KEYS = [
    "args_file",
    "config",
    "dir",
    "docker_socket",
    "k3s_config",
    "lima_home",
    "log_dir",
    "pid_file",
    "short_dir",
    "tls_dir",
]


def values(home: Path) -> dict[str, str]:
    data, short = f"{home}/.local/share/rancher-desktop-2", f"{home}/.rd2"
    return {
        "args_file": f"{data}/args.json",
        "config": f"{data}/config.yaml",
        "dir": data,
        "docker_socket": f"{short}/docker.sock",
        "k3s_config": f"{data}/k3s.yaml",
        "lima_home": f"{short}/lima",
        "log_dir": f"{home}/.local/state/rancher-desktop-2",
        "pid_file": f"{data}/rdd.pid",
        "short_dir": short,
        "tls_dir": f"{data}/tls",
    }


@pytest.mark.parametrize("group", ["service", "svc"])
def test_table_has_two_columns_two_spaces_apart(rdd: Rdd, home: Path, group: str) -> None:
    expected = "".join(f"{key:<15}{value}\n" for key, value in values(home).items())
    assert rdd(group, "paths").out == expected
    assert rdd(group, "paths", "-o", "table").out == expected


def test_json_is_one_line(rdd: Rdd, home: Path) -> None:
    out = rdd("svc", "paths", "--output=json").out
    assert out.count("\n") == 1
    assert json.loads(out) == values(home)
    assert list(json.loads(out)) == KEYS


def test_shell_has_one_export_per_key(rdd: Rdd, home: Path) -> None:
    assert rdd("svc", "paths", "-oshell").out.splitlines() == [
        f'export RDD_{key.upper()}="{value}"' for key, value in values(home).items()
    ]


@pytest.mark.parametrize("key", KEYS)
def test_key_selects_one_value_in_each_format(rdd: Rdd, home: Path, key: str) -> None:
    value = values(home)[key]
    assert rdd("svc", "paths", key).out == f"{value}\n"
    assert rdd("svc", "paths", key, "-o", "table").out == f"{value}\n"
    assert (
        rdd("svc", "paths", "-o", "json", key).out
        == json.dumps({key: value}).replace(": ", ":") + "\n"
    )
    assert rdd("svc", "paths", key, "-o", "shell").out == f'export RDD_{key.upper()}="{value}"\n'


def test_unknown_key_lists_the_valid_ones(rdd: Rdd) -> None:
    outcome = rdd("svc", "paths", "nope")
    assert (outcome.code, outcome.out) == (1, "")
    assert rf'msg="unknown key \"nope\"; valid keys: {", ".join(KEYS)}"' in outcome.err


def test_unknown_format_lists_the_valid_ones(rdd: Rdd) -> None:
    outcome = rdd("svc", "paths", "-o", "xml")
    assert (outcome.code, outcome.out) == (1, "")
    assert (
        r'msg="unknown output format \"xml\"; valid formats: table, json, or shell"' in outcome.err
    )


@pytest.mark.parametrize("text", ["/a b", '/a"b', "/a$HOME", "/a`id`", "/a\\b", "/ä", "/a'b"])
def test_shell_unquotes_to_the_same_value(text: str) -> None:
    script = f'x={shell_quote(text)}; printf %s "$x"'
    assert run_program(["sh", "-c", script]).stdout == text
