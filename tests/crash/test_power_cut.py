# SPDX-License-Identifier: Apache-2.0
"""Simulated power cuts: no acknowledged write is lost, whatever was not synced.

A run of the writer is recorded call by call; then states of the disk that a power cut may leave
are built at random points of the record and opened. To show that the check can find a loss, the
same is done with a store that never syncs. The seed is printed; RDD_TEST_SEED replays another one.
"""

import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.power_cut import Disk, read_records
from tests.crash.store_writer import OPTIONS
from tests.crash.test_store_crash import Witness
from tests.programs import run_program, start_program

from rdd.store.contract import StoreError
from rdd.store.sqlite.store import SqliteStore

STATES, STATES_IN_SOAK = 200, 5_000
ACKNOWLEDGEMENTS = 300
_HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory, real_part: Callable[[str], Path]) -> Path:
    """Compile the recording library."""
    compiler = str(real_part("gcc"))
    target = tmp_path_factory.mktemp("recorder") / "recorder.so"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(target),
        str(_HERE / "power_recorder.c"),
    ]
    run_program([*command, "-ldl", "-lpthread"], check=True)
    return target


async def recorded(directory: Path, recorder: Path, seed: int, sync: str) -> tuple[Disk, Path]:
    """Run the writer for a while; return the disk before it and the record of its calls."""
    path, record = directory / "store.db", directory / "record"
    store = await SqliteStore.open(path, options=OPTIONS)
    await store.close()
    disk = Disk({"store.db": path.read_bytes()})
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "LD_PRELOAD": str(recorder),
        "POWER_RECORD": str(record),
    }
    command = [sys.executable, str(_HERE / "power_writer.py"), str(path), str(seed), sync]
    with start_program(command, env=environment) as child:
        assert child.stdout is not None
        for number, _ in enumerate(child.stdout):
            if number == ACKNOWLEDGEMENTS:
                child.send_signal(signal.SIGKILL)
    return disk, record


async def problem_of(directory: Path, lines: list[str]) -> str:
    """Return what is wrong with a state after a power cut; empty if nothing is."""
    witness = Witness()
    parts = [line.split() for line in lines]
    witness.note(iter([(p[0], p[1], int(p[2]), int(p[3])) for p in parts]))
    try:
        store = await SqliteStore.open(directory / "store.db", options=OPTIONS)
    except StoreError as error:
        return f"not opened: {error}"
    try:
        page = await store.scan("")
        if page.damaged:
            return f"damaged: {page.damaged}"
        await witness.check(store)
        await store.commit([])
    except (AssertionError, KeyError, StoreError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        await store.close()
    return ""


async def losses(
    directory: Path, recorder: Path, seed: int, sync: str, states: int
) -> tuple[int, list[str]]:
    """Open sampled states; return their number and what is wrong with them."""
    disk, record = await recorded(directory, recorder, seed, sync)
    records = list(read_records(record))
    choose = random.Random(seed)
    cuts = sorted(choose.choices(range(len(records) // 10, len(records)), k=states))
    found, opened = [], 0
    position = 0
    for number, cut in enumerate(cuts):
        while position < cut:
            disk.follow(records[position])
            position += 1
        target = directory / f"state-{number}"
        disk.cut(target, choose)
        opened += 1
        problem = await problem_of(target, disk.lines)
        if problem:
            found.append(f"record {cut}: {problem}")
    return opened, found


@pytest.mark.timeout(1_800)
async def test_no_acknowledged_write_is_lost_in_a_power_cut(
    tmp_path: Path, recorder: Path, soak: bool
) -> None:
    seed = int(os.environ.get("RDD_TEST_SEED") or 1)
    opened, found = await losses(tmp_path, recorder, seed, "on", STATES_IN_SOAK if soak else STATES)
    assert opened >= STATES
    assert found == [], f"seed {seed}"


@pytest.mark.timeout(1_800)
async def test_check_finds_the_losses_of_a_store_that_does_not_sync(
    tmp_path: Path, recorder: Path
) -> None:
    _, found = await losses(tmp_path, recorder, 1, "off", 40)
    assert found, "the check is blind"
