# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random points during concurrent writes.

A writing process (store_writer.py) runs many times on one file. After each kill
the test opens the file and compares it with the acknowledged writes. A short
form is part of the suite; `make soak` kills hundreds of times.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash.store_writer import OPTIONS, number_of, value_of
from tests.programs import start_program

from rdd.store.contract import EventType, StoreEvent
from rdd.store.sqlite.store import SqliteStore

SEED = 1
KILLS, KILLS_IN_SOAK = 25, 400

Acknowledged = tuple[str, str, int, int]  # kind, key, revision, number


def run_and_kill(path: Path, seed: int, acknowledgements: int) -> Iterator[Acknowledged]:
    """Run the writer and kill it shortly after some acknowledgements."""
    program = Path(__file__).with_name("store_writer.py")
    with start_program(
        [sys.executable, str(program), str(path), str(seed)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as child:
        assert child.stdout is not None
        for number, line in enumerate(child.stdout):
            if number == acknowledgements:
                # Kill at any point of the next write, not only at an acknowledgement.
                time.sleep(random.Random(seed).random() * 0.003)
                child.send_signal(signal.SIGKILL)
            kind, key, revision, count = line.split()
            yield kind, key, int(revision), int(count)
    assert child.returncode == -signal.SIGKILL


def copy_of(path: Path, directory: Path) -> Path:
    """Copy the file and its log while they are not in use."""
    directory.mkdir()
    for suffix in ("", "-wal"):
        if os.path.exists(f"{path}{suffix}"):
            shutil.copy(f"{path}{suffix}", directory)
    return directory / path.name


async def replay(store: SqliteStore, after: int) -> list[StoreEvent]:
    """Return all events after a revision."""
    events: list[StoreEvent] = []
    while after < store.revision:
        chunk = await store.history("", after)
        events += chunk.events
        after = chunk.revision
    return events


class Witness:
    """Records everything acknowledged in all runs so far."""

    def __init__(self) -> None:
        self.newest: dict[str, tuple[int, str, int]] = {}
        self.changes: dict[int, tuple[str, str, int]] = {}
        self.revision = 0

    def note(self, acknowledged: Iterator[Acknowledged]) -> None:
        for kind, key, revision, number in acknowledged:
            if kind == "open":
                assert revision >= self.revision, "a revision went back"
                self.revision = revision
                continue
            assert revision not in self.changes, "a revision was given out twice"
            self.changes[revision] = (kind, key, number)
            if revision > self.newest.get(key, (0, "", 0))[0]:
                self.newest[key] = (revision, kind, number)
            self.revision = max(self.revision, revision)

    async def check(self, store: SqliteStore) -> None:
        assert store.revision >= self.revision
        records = {record.key: record for record in (await store.scan("")).records}
        for key, record in records.items():
            assert record.value == value_of(key, number_of(record.value)), "a torn value"
        events = await replay(store, store.compacted)
        assert [e.revision for e in events] == sorted({e.revision for e in events})
        by_revision = {event.revision: event for event in events}
        for revision, (kind, key, number) in self.changes.items():
            if revision <= store.compacted:
                continue
            event = by_revision[revision]  # KeyError: an acknowledged write was lost
            assert (event.type.value, event.key) == (kind, key)
            if event.type is EventType.PUT:
                assert event.value == value_of(key, number)
        for key, (revision, kind, number) in self.newest.items():
            found = records.get(key)
            if found is not None and found.revision == revision:
                assert (kind, found.value) == ("put", value_of(key, number))
            elif found is not None:
                assert found.revision > revision, "an older value came back"
            elif kind == "put":
                # Only a delete in flight during the kill may have removed it.
                last = [event for event in events if event.key == key][-1]
                assert (last.type, last.revision > revision) == (EventType.DELETE, True)

        # A write in flight may have survived; once it was seen, it must stay.
        for event in events:
            number = 0 if event.type is EventType.DELETE else number_of(event.value)
            change = (event.type.value, event.key, number)
            self.changes[event.revision] = change
            if event.revision > self.newest.get(event.key, (0, "", 0))[0]:
                self.newest[event.key] = (event.revision, event.type.value, number)

    async def check_previous_values(self, store: SqliteStore, after: int) -> None:
        """Check that each event carries the value it replaced, with and without a hint."""
        events = await replay(store, after)
        values = {(e.key, e.revision): e.value for e in events}
        for event in events:
            if (event.key, event.previous_revision) in values:
                assert event.previous == values[event.key, event.previous_revision]


@pytest.mark.timeout(1_800)
async def test_no_acknowledged_write_is_lost_when_the_process_is_killed(
    tmp_path: Path, soak: bool
) -> None:
    path = tmp_path / "store.db"
    choose = random.Random(SEED)
    witness = Witness()
    runs = KILLS_IN_SOAK if soak else KILLS
    for number in range(runs):
        before = witness.revision
        witness.note(run_and_kill(path, SEED * 1_000 + number, choose.randrange(1, 250)))
        # Half of the time a copy is checked, so that the next run opens the file as the kill
        # left it, not after a clean shutdown.
        checked = path if choose.random() < 0.5 else copy_of(path, tmp_path / str(number))
        store = await SqliteStore.open(checked, options=OPTIONS)
        try:
            await witness.check(store)
            after = max(before, store.compacted, 1)
            if after < witness.revision:
                await witness.check_previous_values(store, after)
        finally:
            await store.close()
    assert len(witness.changes) > runs
