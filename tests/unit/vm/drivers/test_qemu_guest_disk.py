# SPDX-License-Identifier: Apache-2.0
"""Reports about the disk of a guest, its trims, and the reserve of a machine."""

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.programs import run_program

from rdd.host.commands import CommandResult
from rdd.host.usage.holes import can_punch_holes
from rdd.vm import reserve
from rdd.vm.agent.events import EventStream
from rdd.vm.disk_report import FULL, LOW, DiskReport
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.qemu.disk.guest_disk import WORTH_BYTES, GuestDisk
from rdd.vm.instance_dir import LimaHome
from rdd.vm.lifecycle.observation import Observation, parse_event
from rdd.vm.ssh import SshError
from rdd.vm.template.model import Template

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("total", "free", "pressure"),
    [
        (100 * GIB, 6 * GIB, ""),
        (100 * GIB, 5 * GIB - 1, LOW),
        (100 * GIB, GIB - 1, FULL),
        (4 * GIB, 500 * MIB, ""),
        (4 * GIB, 400 * MIB, LOW),
        (4 * GIB, 80 * MIB, FULL),
        (4 * GIB, 0, FULL),
        (0, 0, ""),
    ],
)
def test_pressure_depends_on_the_size(total: int, free: int, pressure: str) -> None:
    assert DiskReport(point="/", total_bytes=total, free_bytes=free).pressure == pressure


@pytest.mark.parametrize("data", [None, [], "x", {"totalBytes": "1"}, {"freeBytes": None}])
def test_malformed_report_is_none(data: Any) -> None:
    assert DiskReport.from_data(data) is None


def test_event_follows_only_news(tmp_path: Path) -> None:
    file = tmp_path / "events"
    with file.open("wb") as out:
        events = EventStream(descriptor=out.fileno())
        events.running()
        report = DiskReport(point="/", total_bytes=GIB, free_bytes=GIB // 2)
        for free in (GIB // 2, GIB // 3, 0, 1, GIB // 2):
            events.disk(replace(report, free_bytes=free))
        events.disk(replace(report, problem="no discard"))
    statuses = [parse_event(line) for line in file.read_bytes().splitlines()]
    seen = [Observation().after(status or {}).disk for status in statuses]
    assert seen[0] is None
    assert [(one.pressure, one.problem) for one in seen[1:] if one] == [
        ("", ""),
        (FULL, ""),
        ("", ""),
        ("", "no discard"),
    ]


class Guest:
    """Answers the commands of a GuestDisk; `answers` are statuses with errors, or an exception."""

    def __init__(self) -> None:
        self.trims: list[str] = []
        self.no_discard = ""
        self.trim: CommandResult | Exception = CommandResult((), 0, "", "")
        self.trimmed: Callable[[], None] = lambda: None

    async def run(self, line: str, **_: Any) -> CommandResult:
        if "discard_max_bytes" in line:
            return CommandResult((), 0, self.no_discard, "")
        self.trims.append(line)
        self.trimmed()
        if isinstance(self.trim, Exception):
            raise self.trim
        return self.trim


class Disk:
    """A GuestDisk with a real file."""

    def __init__(self, tmp_path: Path) -> None:
        directory = LimaHome(tmp_path).directory("vm")
        directory.path.mkdir(parents=True)
        self.file = directory.path / "disk"
        self.file.touch()
        self.guest = Guest()
        self.reports: list[DiskReport] = []
        self.warnings: list[str] = []
        context = DriverContext(
            directory=directory,
            template=Template(),
            environment={},
            warn=self.warnings.append,
            degrade=self.warnings.append,
            disk=self.reports.append,
        )
        self.disk = GuestDisk(cast("Any", self.guest), context)

    def allocate(self, size: int) -> None:
        os.truncate(self.file, 0)
        with self.file.open("r+b") as file:
            if size:
                os.posix_fallocate(file.fileno(), 0, size)

    async def measure(self, *used: int) -> None:
        lines = [f"/dev/vd{n} 1000000 {one >> 10} 900000 1% /{n}" for n, one in enumerate(used)]
        self.disk.measured("|".join([*lines, ""]))
        if self.disk._task is not None:
            await self.disk._task


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.disk.close()


async def test_guest_is_trimmed_when_its_file_has_a_surplus(disk: Disk) -> None:
    disk.allocate(100 * MIB)
    await disk.measure(60 * MIB, 40 * MIB)
    disk.allocate(400 * MIB)
    await disk.measure(300 * MIB, 100 * MIB)
    assert not disk.guest.trims
    disk.guest.trimmed = lambda: disk.allocate(150 * MIB)
    await disk.measure(60 * MIB, 100 * MIB)
    assert len(disk.guest.trims) == 1
    # The file system has blocks of its own for a fragmented file.
    assert 249 * MIB < disk.reports[-1].returned_bytes < 251 * MIB
    assert disk.reports[-1].trimmed_at
    for _ in range(3):  # what a trim cannot return is no reason for another one
        await disk.measure(10 * MIB, 10 * MIB)
    assert len(disk.guest.trims) == 1
    disk.allocate(160 * MIB + WORTH_BYTES)  # written and deleted between two measurements
    await disk.measure(10 * MIB, 10 * MIB)
    assert len(disk.guest.trims) == 2


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (CommandResult((), 1, "", "fstrim: /: not supported\n"), "fstrim: /: not supported"),
        (CommandResult((), 127, "", ""), "exit status 127"),
        (SshError("no response over ssh within 300 s"), "no response over ssh within 300 s"),
    ],
)
async def test_failed_trim_is_reported_until_one_succeeds(
    disk: Disk, answer: CommandResult | Exception, problem: str
) -> None:
    disk.guest.trim = answer
    await disk.measure(10 * MIB)
    disk.allocate(100 * MIB)
    await disk.measure(10 * MIB)
    assert disk.reports[-1].problem == f"fstrim failed: {problem}"
    assert len(disk.warnings) == 1
    disk.guest.trim = CommandResult((), 0, "", "")
    await disk.measure(10 * MIB)
    disk.allocate(200 * MIB)
    await disk.measure(10 * MIB)
    assert disk.reports[-1].problem == ""


async def test_disk_without_discard_is_reported_at_once(disk: Disk) -> None:
    disk.guest.no_discard = "/\n/data\n"
    await disk.measure(10 * MIB)
    assert disk.reports[-1].problem == "the disk of /, /data has no discard in the guest"
    await asyncio.sleep(0)
    assert not disk.guest.trims


@pytest.mark.parametrize(
    "line", ["", "|", "x y z|", "/dev/vda 0 0 0 - /|", "/dev/vda -1 1 1 1% /|", "/dev/vda 1 2|"]
)
async def test_malformed_measurements_are_ignored(disk: Disk, line: str) -> None:
    disk.disk.measured(line)
    assert not disk.reports


def test_file_systems_without_holes_are_recognized(tmp_path: Path) -> None:
    assert can_punch_holes(tmp_path)
    assert can_punch_holes(tmp_path / "missing")
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    if run_program(["mount", "-t", "ramfs", "ramfs", str(tmp_path)]).returncode != 0:
        pytest.skip("root cannot mount here")
    try:
        assert not can_punch_holes(tmp_path)
    finally:
        run_program(["umount", str(tmp_path)], check=True)


# -- the reserve


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Return a function that mounts a file system of a size, or changes its size."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    point = tmp_path / "disk"
    point.mkdir()

    def resize(size: str) -> Path:
        options = f"remount,size={size}" if point.is_mount() else f"size={size}"
        done = run_program(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)])
        if done.returncode != 0:
            pytest.skip(f"root cannot mount here: {done.stderr.strip()}")
        return point

    yield resize
    if point.is_mount():
        run_program(["umount", str(point)], check=True)


def test_reserve_is_freed_on_a_full_disk_and_allocated_again(
    small_disk: Callable[[str], Path],
) -> None:
    path = small_disk("3g")
    file = path / reserve.NAME
    reserve.prepare(path)
    assert file.stat().st_blocks * 512 >= reserve.SIZE_BYTES
    small_disk("80m")
    free = os.statvfs(path).f_bavail * os.statvfs(path).f_frsize
    assert free < reserve.SIZE_BYTES
    reserve.prepare(path)
    assert not file.exists()
    small_disk("1g")
    reserve.prepare(path)
    assert not file.exists()  # the space may be needed
    small_disk("3g")
    assert not reserve.release_if_short(path)
    reserve.prepare(path)
    assert file.exists()


def test_reserve_of_a_missing_directory_is_ignored(tmp_path: Path) -> None:
    reserve.prepare(tmp_path / "missing")
    assert not reserve.release_if_short(tmp_path / "missing")
