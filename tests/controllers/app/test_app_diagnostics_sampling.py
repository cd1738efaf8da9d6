# SPDX-License-Identifier: Apache-2.0
"""Rounds of checks in a thread report changes only, and end."""

import threading
from collections.abc import Iterator

import pytest

from rdd.controllers.app.diagnostics.findings import Finding, healthy, unhealthy
from rdd.controllers.app.diagnostics.sampling import Sampler

TIMEOUT_S = 60.0
GOOD = healthy("Good", "It works.")
BAD = unhealthy("Bad", "It does not work.", next_step="true")


class Rounds:
    """Checks that return `finding`, and the changes that were reported."""

    def __init__(self) -> None:
        self.finding: Finding = GOOD
        self.count = 0
        self.reported = threading.Event()
        self.condition = threading.Condition()

    def run(self) -> dict[str, Finding]:
        with self.condition:
            self.count += 1
            self.condition.notify_all()
        return {"one": self.finding}

    def wait_for_more(self) -> None:
        with self.condition:
            seen = self.count
            assert self.condition.wait_for(lambda: self.count >= seen + 2, TIMEOUT_S)


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def sampler(rounds: Rounds) -> Iterator[Sampler]:
    sampler = Sampler(rounds.reported.set, interval_s=0.001)
    yield sampler
    sampler.stop()


def test_unchanged_findings_are_not_reported(sampler: Sampler, rounds: Rounds) -> None:
    sampler.start(rounds.run, {"one": GOOD, "other": BAD})
    rounds.wait_for_more()
    assert not rounds.reported.is_set()


def test_changes_are_reported_in_both_directions(sampler: Sampler, rounds: Rounds) -> None:
    known = GOOD
    for finding in (BAD, GOOD, BAD):
        sampler.start(rounds.run, {"one": known})
        rounds.finding = known = finding
        assert rounds.reported.wait(TIMEOUT_S)
        sampler.start(rounds.run, {"one": known})
        rounds.wait_for_more()
        rounds.reported.clear()
        rounds.wait_for_more()
        assert not rounds.reported.is_set()


def test_rounds_end_and_start_again(sampler: Sampler, rounds: Rounds) -> None:
    before = threading.enumerate()

    def threads() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread not in before]

    for _ in range(2):
        sampler.start(rounds.run, {"one": GOOD})
        rounds.wait_for_more()
        sampler.start(rounds.run, {"one": GOOD})
        (thread,) = threads()
        sampler.stop()
        sampler.stop()
        thread.join(TIMEOUT_S)
        assert threads() == []
