# SPDX-License-Identifier: Apache-2.0
"""A kill between any two steps of a creation or deletion (tests/data/vm/crash_points.py)."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.programs import run_program

ROOT = Path(__file__).parents[4]
SCRIPT = ROOT / "tests" / "data" / "vm" / "crash_points.py"


def outcomes(work: str, path: Path) -> list[dict[str, Any]]:
    done = run_program(
        [sys.executable, str(SCRIPT), work, str(path)],
        check=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    *killed, last = found
    assert last["code"] == 0 and all(outcome["code"] == 9 for outcome in killed)
    return found


def test_creation_killed_at_any_step_is_complete_or_repeatable(tmp_path: Path) -> None:
    found = outcomes("create", tmp_path)
    assert len(found) > 10
    for outcome in found:
        assert outcome["status"] in ("Uninitialized", "Stopped")
        assert outcome.get("complete", True)
        # An incomplete instance is marked as such.
        assert outcome["preparing"] == (outcome["exists"] and "complete" not in outcome)
        # The next attempt does not change a complete instance (3: it exists already).
        assert outcome["again"] == (3 if outcome["status"] == "Stopped" else 0)
        assert outcome["left"] == ["vm"]
        assert outcome["after"] == {
            "status": "Stopped",
            "exists": True,
            "preparing": False,
            "complete": True,
        }


def test_deletion_killed_at_any_step_is_finished_by_the_next(tmp_path: Path) -> None:
    found = outcomes("delete", tmp_path)
    assert len(found) > 5
    for outcome in found:
        # The instance is complete or gone, never partial.
        assert outcome.get("complete", not outcome["exists"])
        assert outcome["again"] == 0
        assert outcome["left"] == []
