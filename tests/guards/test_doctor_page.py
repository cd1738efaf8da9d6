# SPDX-License-Identifier: Apache-2.0
"""docs/doctor.md lists every check and every failure, and the test that breaks and mends it."""

import re
from pathlib import Path

from rdd.controllers.app.diagnostics import checks
from rdd.daemon.service.checks import CONTROL_PLANE, DATABASE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "doctor.md").read_text()
SOURCES = (
    *(ROOT / "src/rdd/controllers/app/diagnostics").glob("*.py"),
    ROOT / "src/rdd/daemon/service/checks.py",
)


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the rows of the first table after a text."""
    lines = PAGE.partition(heading)[2].splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_page_lists_every_check() -> None:
    listed = {name for row in rows("# Checks") for name in re.findall(r"^`([\w-]+)`", row[0])}
    assert listed == {*checks.CHECKS, CONTROL_PLANE, DATABASE}


def test_every_failure_has_a_meaning_and_a_test() -> None:
    literals = {
        reason
        for path in SOURCES
        for call in re.findall(r"unhealthy\((.*?),\n", path.read_text(), re.DOTALL)
        for reason in re.findall(r'"([A-Z]\w+)"', call)
    }
    assert len(literals) > 15
    explained = {word for row in rows("# Checks") for word in re.findall(r"`(\w+)`", row[1])}
    tested = {word for row in rows("## How the tests") for word in re.findall(r"`(\w+)`", row[0])}
    assert literals <= explained
    assert literals <= tested


def test_named_tests_exist_and_every_row_is_complete() -> None:
    text = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for row in rows("## How the tests"):
        assert all(row), row
        for name in re.findall(r"`(test_\w+)`", row[3]):
            assert f"def {name}(" in text, name


def test_every_check_is_broken_and_mended() -> None:
    tested = {row[0].split("`")[1] for row in rows("## How the tests")}
    assert tested == {*checks.CHECKS, CONTROL_PLANE, DATABASE}
