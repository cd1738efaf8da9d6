# SPDX-License-Identifier: Apache-2.0
"""The memory of a guest: what qemu reports about it, what the kernel does, what is reported."""

import mmap
import os
from typing import Any

import pytest

from rdd.controllers.lima.limavm import reasons
from rdd.vm.drivers.qemu.memory import NO_BALLOON, GuestStatistics, resident_bytes
from rdd.vm.memory_report import MemoryReport

MIB = 1 << 20
GIB = 1 << 30
COMPLETE = {
    "stat-total-memory": 4 * GIB,
    "stat-available-memory": 3 * GIB,
    "stat-disk-caches": GIB,
}


def test_reads_the_statistics_of_a_guest() -> None:
    found = GuestStatistics.from_answer({"stats": COMPLETE, "last-update": 1})
    assert found is not None
    assert (found.used, found.cache, found.reserve) == (GIB, GIB, 256 * MIB)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="nothing"),
        pytest.param(None, id="null"),
        pytest.param({"stats": []}, id="another form"),
        pytest.param({"stats": {**COMPLETE, "stat-disk-caches": (1 << 64) - 1}}, id="not reported"),
        pytest.param({"stats": {**COMPLETE, "stat-available-memory": -1}}, id="negative"),
        pytest.param({"stats": {**COMPLETE, "stat-total-memory": "x"}}, id="text"),
    ],
)
def test_incomplete_statistics_are_none(answer: Any) -> None:
    assert GuestStatistics.from_answer(answer) is None


def test_excess_is_more_than_the_reserve_and_an_eighth() -> None:
    found = GuestStatistics(total=4 * GIB, available=3 * GIB, cache=GIB)
    limit = GIB + 256 * MIB + 512 * MIB
    assert not found.is_excess(limit)
    assert found.is_excess(limit + 1)


def test_small_guests_keep_64_mib_and_use_128_mib_as_threshold() -> None:
    found = GuestStatistics(total=256 * MIB, available=200 * MIB, cache=0)
    limit = (56 + 64 + 128) * MIB
    assert not found.is_excess(limit)
    assert found.is_excess(limit + 1)


def test_counts_touched_pages_of_large_mappings() -> None:
    before = resident_bytes(os.getpid())
    with mmap.mmap(-1, 64 * MIB) as memory:
        assert resident_bytes(os.getpid()) - before < 32 * MIB
        for offset in range(0, 48 * MIB, 4096):
            memory[offset] = 1
        assert resident_bytes(os.getpid()) - before >= 48 * MIB
        memory.madvise(mmap.MADV_DONTNEED)
        assert resident_bytes(os.getpid()) - before < 16 * MIB


def test_memory_of_no_process_is_unknown() -> None:
    assert resident_bytes(0) == 0


def test_report_survives_an_event() -> None:
    report = MemoryReport(used_bytes=3 * GIB, host_bytes=GIB, problem="p")
    assert MemoryReport.from_data(report.to_data()) == report


@pytest.mark.parametrize("data", [None, [], {"usedBytes": "1"}, {"hostBytes": 1.5}])
def test_event_of_another_form_is_no_report(data: Any) -> None:
    assert MemoryReport.from_data(data) is None


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        pytest.param({}, False, id="nothing"),
        pytest.param({"used_bytes": 2 * GIB + 60 * MIB}, False, id="a little"),
        pytest.param({"used_bytes": 2 * GIB + 210 * MIB}, True, id="more than a tenth"),
        pytest.param({"host_bytes": 0}, True, id="nothing is held"),
        pytest.param({"problem": NO_BALLOON}, True, id="a problem"),
    ],
)
def test_only_changes_that_matter_are_reported(change: dict[str, Any], differs: bool) -> None:
    last = MemoryReport(used_bytes=2 * GIB, host_bytes=3 * GIB)
    fields: dict[str, Any] = {"used_bytes": 2 * GIB, "host_bytes": 3 * GIB, **change}
    assert MemoryReport(**fields).differs(last) is differs


def test_conditions_of_the_memory() -> None:
    good = reasons.memory(MemoryReport(used_bytes=1))
    assert (good.status, good.reason) == ("True", "Balloon")
    bad = reasons.memory(MemoryReport(problem=NO_BALLOON))
    assert (bad.status, bad.reason, bad.message) == ("False", "NoBalloon", NO_BALLOON)
