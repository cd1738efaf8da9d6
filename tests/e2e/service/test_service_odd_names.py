# SPDX-License-Identifier: Apache-2.0
"""Odd names of objects in commands, with a running control plane: one line, no traceback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world

from rdd.cli.framework.entry import run

NAMES = (
    "",
    "/",
    ".",
    "..",
    "a/b",
    "ä",
    "a b",
    "a\nb",
    "\udcff",
    "%2F",
    "x" * 300,
    "-",
    "a=b",
    "?x=1",
)
COMMANDS = (
    "snapshot rm -y -- NAME",
    "snapshot restore -y -- NAME",
    "snapshot export -- NAME out.tar",
    "limavm start -- NAME",
    "limavm delete -y -- NAME",
    "limavm disk show -- NAME",
    "limavm log -- NAME",
    "limavm create --namespace=NAME -- vm none",
    "logs -- NAME",
    "image rm -y -- NAME",
    "volume rm -y -- NAME",
    "trash restore -y -- NAME",
    "cache rm -y -- NAME",
    "tools remove -y -- NAME",
    "get -- NAME",
    "set -- NAME=1",
    "service quarantine rm -- NAME",
    "disk prune --label=NAME -y",
)


@pytest.fixture(scope="module")
def running(
    rdd_script: Path, tmp_path_factory: pytest.TempPathFactory, kubectl: Path
) -> Iterator[World]:
    for world in make_world(rdd_script, tmp_path_factory.mktemp("names") / "h", kubectl):
        world.rdd("service", "start")
        yield world


@pytest.mark.parametrize("command", COMMANDS)
def test_odd_name_is_one_clear_line(
    running: World, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {**running.environment(), "RDD_LOG_LEVEL": "error"}
    for name in NAMES:
        words = [word.replace("NAME", name) for word in command.split()]
        with (
            (tmp_path / "out").open("w", errors="replace") as out,
            (tmp_path / "err").open("w+", errors="backslashreplace") as err,
        ):
            argv = [str(running.script), *words]
            code = run(argv, dict(environ), stdout=out, stderr=err)
            err.seek(0)
            text = err.read()
        assert code in (0, 1, 3), (words, text)
        assert text.count("\n") == (1 if code else 0), (words, text)
        for mark in ("unexpected error", "Traceback", "Errno", "denied the request"):
            assert mark not in text, (words, text)
