# SPDX-License-Identifier: Apache-2.0
"""Rules for every source file."""

from collections import Counter
from pathlib import Path

import pytest
from tests.programs import run_program

ROOT = Path(__file__).parents[2]
BANNED = {"utils.py", "helpers.py", "common.py", "misc.py", "base.py"}


def tracked() -> list[Path]:
    done = run_program(["git", "ls-files", "-z"], cwd=ROOT)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_source_files_name_their_licence() -> None:
    sources = [path for path in tracked() if path.suffix in (".py", ".sh")]
    without = [
        str(path.relative_to(ROOT))
        for path in sources
        if "SPDX-License-Identifier: Apache-2.0" not in path.read_text()[:200]
    ]
    assert without == []


def test_modules_are_named_for_what_they_hold() -> None:
    assert [path.name for path in tracked() if path.name in BANNED] == []


def test_test_files_have_unique_names() -> None:
    names = [path.name for path in tracked() if path.match("tests/**/test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_folders_stay_small_enough_to_read() -> None:
    """A folder with more modules than a reader can survey needs folders of its own."""
    folders = Counter(path.parent for path in tracked() if path.suffix == ".py")
    crowded = {str(path.relative_to(ROOT)): count for path, count in folders.items() if count > 26}
    assert crowded == {}
