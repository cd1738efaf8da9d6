# SPDX-License-Identifier: Apache-2.0
"""The code blocks of docs/testing.md, run as the tests they are."""

import re
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

from tests.programs import run_program

PAGE = Path(__file__).parents[3] / "docs" / "testing.md"


def test_the_code_blocks_of_the_page_pass(
    tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    for number, block in enumerate(blocks):
        (tmp_path / f"test_block_{number}.py").write_text(block)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    plugins = [] if entry_points(group="pytest11", name="rdd") else ["-p", "rdd.testing.plugin"]
    without = ["-p", "no:randomly", "-p", "no:looptime_plugin"]
    done = run_program(
        [sys.executable, "-m", "pytest", "-q", *without, *plugins],
        cwd=tmp_path,
        env=clean_environment,
    )
    assert f"{len(blocks) + 1} passed" in done.stdout, done.stdout + done.stderr


def test_the_page_names_every_fault() -> None:
    from rdd.testing import Faults

    kinds = {
        name
        for name, member in vars(Faults).items()
        if name[0] != "_" and callable(member) and name not in ("handle", "clear", "remove")
    }
    named = set(re.findall(r"^\| `(\w+)\(", PAGE.read_text(), re.M))
    assert kinds == named
