# SPDX-License-Identifier: Apache-2.0
"""Every promise of docs/security.md and docs/reliability.md names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_TEST = re.compile(r"tests/[a-z0-9_/]*(?:\.py)?|python -m (tests[a-z._]*)")


def promises(page: str) -> list[tuple[str, str]]:
    """Return the first cell of each row in tables with a column `test`, and that column."""
    found, column = [], -1
    for line in (ROOT / "docs" / page).read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            column = -1
        elif "test" in cells:
            column = cells.index("test")
        elif column >= 0 and set(cells[0]) != {"-"}:
            found.append((cells[0], cells[column]))
    return found


@pytest.mark.parametrize("page", ["security.md", "reliability.md"])
def test_each_promise_has_tests_that_exist(page: str) -> None:
    rows = promises(page)
    assert len(rows) > 20
    for promise, tests in rows:
        if tests == "see there" or "#" in tests:  # the table below or there has them
            continue
        paths = [
            path[1].replace(".", "/") if path[1] else path[0] for path in _TEST.finditer(tests)
        ]
        assert paths, f"{page}: no test for: {promise}"
        for path in paths:
            assert (ROOT / path).exists(), f"{page}: {path} does not exist"
