# SPDX-License-Identifier: Apache-2.0
"""Every example runs and prints the output of its README."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.programs import run_program

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("[0-9]*"))
NEEDS = {
    "04-containers": ("dockerd", "containerd", "iptables"),
    "05-etcd": ("etcd",),
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_example_runs_and_prints_what_its_readme_shows(
    example: Path,
    clean_environment: Mapping[str, str],
    rdd_script: Path,
    real_part: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for part in NEEDS.get(example.name, ()):
        real_part(part)
    env = {
        **clean_environment,
        "HOME": str(tmp_path_factory.mktemp("h")),  # short: sockets are below it
        "PATH": f"{rdd_script.parent}:{os.environ['PATH']}",
    }
    scripts = sorted(example.glob("*.py")) + sorted(example.glob("*.sh"))
    assert scripts
    for script in scripts:
        command = [sys.executable] if script.suffix == ".py" else ["sh"]
        done = run_program([*command, str(script)], env=env)
        assert (done.returncode, done.stderr) == (0, "")
        shown = done.stdout.replace(env["HOME"], "/home/me")
        assert shown in (example / "README.md").read_text()
