# SPDX-License-Identifier: Apache-2.0
"""Death between any two steps of a creation or deletion (tests/data/vm/crash_points.py)."""

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


def test_creation_that_died_anywhere_is_complete_or_made_again(tmp_path: Path) -> None:
    found = outcomes("create", tmp_path)
    assert len(found) > 10
    for outcome in found:
        assert outcome["status"] in ("Uninitialized", "Stopped")
        assert outcome.get("complete", True)
        # What is there and not complete says so itself.
        assert outcome["preparing"] == (outcome["exists"] and "complete" not in outcome)
        # A complete one is not touched by the next attempt (3: it exists already).
        assert outcome["again"] == (3 if outcome["status"] == "Stopped" else 0)
        assert outcome["left"] == ["vm"]
        assert outcome["after"] == {
            "status": "Stopped",
            "exists": True,
            "preparing": False,
            "complete": True,
        }


def test_deletion_that_died_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    found = outcomes("delete", tmp_path)
    assert len(found) > 5
    for outcome in found:
        # Never half an instance: it is still complete, or there is none.
        assert outcome.get("complete", not outcome["exists"])
        assert outcome["again"] == 0
        assert outcome["left"] == []
