# SPDX-License-Identifier: Apache-2.0
"""The code blocks of docs/testing.md and of the README, run as tests."""

import re
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.programs import run_program

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "testing.md"
STRICT = "[pytest]\n"  # the default of pytest-asyncio
AUTO = "[pytest]\nasyncio_mode = auto\n"


def code_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)


def run_blocks(page: Path, directory: Path, settings: str, env: Mapping[str, str]) -> None:
    """Run the code blocks of a page as test modules; each contains at least one test."""
    blocks = code_blocks(page)
    for number, block in enumerate(blocks):
        (directory / f"test_block_{number}.py").write_text(block)
    (directory / "pytest.ini").write_text(settings)
    plugins = [] if entry_points(group="pytest11", name="rdd") else ["-p", "rdd.testing.plugin"]
    without = ["-p", "no:randomly", "-p", "no:looptime_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *without, *plugins]
    done = run_program(command, cwd=directory, env=env)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    count = sum(len(re.findall(r"^(?:async )?def test_", block, re.M)) for block in blocks)
    assert count >= len(blocks) > 0
    assert re.search(rf"^{count} passed", done.stdout, re.M), output


@pytest.mark.parametrize(
    "settings", [pytest.param(STRICT, id="strict"), pytest.param(AUTO, id="auto")]
)
def test_code_blocks_of_the_page_pass(
    settings: str, tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    run_blocks(PAGE, tmp_path, settings, clean_environment)


def test_code_blocks_of_the_readme_pass(
    tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    run_blocks(ROOT / "README.md", tmp_path, STRICT, clean_environment)


def test_page_lists_every_fault() -> None:
    from rdd.testing import Faults

    kinds = {
        name
        for name, member in vars(Faults).items()
        if name[0] != "_" and callable(member) and name not in ("handle", "clear", "remove")
    }
    named = set(re.findall(r"^\| `(\w+)\(", PAGE.read_text(), re.M))
    assert kinds == named
