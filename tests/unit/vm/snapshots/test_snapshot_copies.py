# SPDX-License-Identifier: Apache-2.0
"""Copies and archives are identical to their source; failures leave nothing."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.file_systems import used_bytes
from tests.programs import run_program
from tests.unit.vm.snapshots.snapshot_content import description, fill

from rdd.host.errors import FailureReason, HostError
from rdd.host.exchange import exchange
from rdd.host.tree_copy import copy_entries, shares_blocks
from rdd.vm.instance_dir import InstanceDirectory, InstanceRecord
from rdd.vm.snapshots import archive, machine
from rdd.vm.snapshots.manifest import MachineRecord, Manifest
from rdd.vm.snapshots.store import MACHINES_DIR, SnapshotStore, StoredSnapshot, index_path

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="owners and devices need root")

RECORD = MachineRecord(driver="host", method="copy", mode="root")


@pytest.fixture
def content(tmp_path: Path) -> Path:
    root = tmp_path / "lima" / "rd"
    root.mkdir(parents=True)
    fill(root)
    return root


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for very little."""
    path = tmp_path / "full"
    path.mkdir()
    done = run_program(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(path)])
    assert done.returncode == 0, done.stderr
    try:
        yield path
    finally:
        assert run_program(["umount", "-l", str(path)]).returncode == 0


def manifest(**changes: object) -> Manifest:
    members: dict[str, object] = {
        "id": "1",
        "name": "one",
        "created": 1.0,
        "scope": {"kind": "App"},
        "machines": {"rd": RECORD},
        "size_bytes": 1 << 20,
        **changes,
    }
    return Manifest(**members)  # type: ignore[arg-type]


async def test_copy_is_identical(content: Path, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    target.mkdir()
    await copy_entries(content, ["docker"], target)
    assert description(target) == description(content)
    assert (target / "docker" / "sparse").stat().st_blocks * 512 < 1 << 20


def test_archive_round_trip_is_identical(content: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / MACHINES_DIR).mkdir(parents=True)
    content.rename(source / MACHINES_DIR / "rd")
    made = manifest(description="for ever", settings={"running": True})
    written: list[int] = []
    archive.write(source, made, tmp_path / "one.rdd", report=written.append)
    assert (tmp_path / "one.rdd").stat().st_mode & 0o777 == 0o600
    assert written[-1] < (tmp_path / "one.rdd").stat().st_size < 1 << 20  # no holes in it
    read = archive.Archive(tmp_path / "one.rdd")
    assert read.manifest == made
    read.verify()
    target = tmp_path / "target"
    target.mkdir()
    read.unpack(target)
    assert description(target) == description(source)
    with pytest.raises(HostError, match="exists"):
        archive.write(source, made, tmp_path / "one.rdd", report=written.append)


async def test_full_disk_is_named_and_nothing_is_left(content: Path, full_disk: Path) -> None:
    (content / "docker" / "large").write_bytes(os.urandom(1 << 18))
    store = SnapshotStore([full_disk / "snapshots"])
    partial = store.begin("one", full_disk)
    with pytest.raises(HostError, match="no space left on device") as caught:
        await machine.save(
            InstanceDirectory(content), partial / "rd", RECORD, report=lambda _: None
        )
    assert caught.value.reason is FailureReason.DISK_FULL
    store.discard(partial)
    store.remove_empty_roots()
    assert os.listdir(full_disk) == []
    source = content.parent
    with pytest.raises(HostError, match=r"[Nn]o space left on device"):
        archive.write(source, manifest(), full_disk / "one.rdd", report=lambda _: None)
    assert os.listdir(full_disk) == []


async def test_restore_exchanges_the_machine_or_leaves_it(content: Path, tmp_path: Path) -> None:
    directory = InstanceDirectory(content)
    directory.write_record(InstanceRecord("host"))
    saved = tmp_path / "saved"
    await machine.save(directory, saved, RECORD, report=lambda _: None)
    before = description(content)
    (content / "docker" / "new").write_text("later")
    (content / "docker" / "hard").unlink()
    replaced = await machine.restore(saved, RECORD, directory, report=lambda _: None)
    assert description(content) == before
    assert replaced is not None
    assert (replaced / "docker" / "new").read_text() == "later"
    # Once more, as after a crash that left both directories behind.
    assert await machine.restore(saved, RECORD, directory, report=lambda _: None) == replaced
    assert description(content) == before

    with pytest.raises(HostError):
        await machine.restore(tmp_path / "missing", RECORD, directory, report=lambda _: None)
    assert description(content) == before
    assert not machine.staging_of(directory).exists()


async def test_next_copy_links_what_has_not_changed(content: Path, tmp_path: Path) -> None:
    directory = InstanceDirectory(content)
    directory.write_record(InstanceRecord("host"))
    store = SnapshotStore([tmp_path / "snapshots"])

    async def save(name: str) -> StoredSnapshot:
        partial = store.begin(name, content)
        await machine.save(
            directory,
            partial / MACHINES_DIR / "rd",
            RECORD,
            index=index_path(partial, "rd"),
            previous=store.last_copy("rd", partial.parent),
            report=lambda _: None,
        )
        return store.complete(partial, manifest(name=name))

    def shared(one: StoredSnapshot, other: StoredSnapshot) -> set[str]:
        places = [path.relative_to(content) for path in content.rglob("*") if path.is_file()]
        pairs = [
            (str(place), one.machine("rd") / place, other.machine("rd") / place) for place in places
        ]
        return {place for place, a, b in pairs if a.exists() and b.samefile(a)}

    first = await save("one")
    expected = description(content)
    data = content / "docker"
    layer = data / "overlay2" / "layer" / "diff"
    # Same size and times, other content; other attributes; another file; one that is gone.
    times = (layer / "capable").stat()
    (layer / "capable").write_bytes(b"\x7fELf")
    os.utime(layer / "capable", ns=(times.st_atime_ns, times.st_mtime_ns))
    os.setxattr(layer / "plain", "user.note", b"changed")
    (data / "empty" / "new").write_text("new")
    (data / "sparse").rename(data / "moved")
    second = await save("two")
    assert description(second.machine("rd")) == description(content)
    assert description(first.machine("rd")) == expected
    assert shared(first, second) == {
        "rdd.json",
        *(str(p.relative_to(content)) for p in layer.glob("odd*")),
    }

    third = await save("three")
    assert {"docker/moved", "docker/hard", "docker/empty/new"} < shared(second, third)
    store.remove("two")
    store.remove("one")
    assert description(third.machine("rd")) == description(content)
    await machine.restore(third.machine("rd"), RECORD, directory, report=lambda _: None)
    (data / "moved").write_bytes(b"")  # the machine is independent of its snapshots
    (data / "hard").write_bytes(b"")
    fourth = await save("four")
    assert shared(third, fourth) == set()
    assert (third.machine("rd") / "docker" / "moved").stat().st_size == 1 << 26


async def test_copy_of_a_running_machine_is_completed(
    content: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_CLOCK_NS", 0)
    directory = InstanceDirectory(content)
    directory.write_record(InstanceRecord("host"))
    data = content / "docker"
    layer = data / "overlay2" / "layer" / "diff"
    await asyncio.to_thread(os.sync)
    saved = tmp_path / "snapshot" / "machines" / "rd"
    begun = await machine.copy_running(directory, saved, report=lambda _: None)
    untouched = (saved / "rdd.json").stat().st_ino
    times = (layer / "capable").stat()
    (layer / "capable").write_bytes(b"\x7fELf")  # the same size and times
    os.utime(layer / "capable", ns=(times.st_atime_ns, times.st_mtime_ns))
    (data / "hard").unlink()
    (layer / "fifo").unlink()
    (layer / "fifo").mkdir()
    (data / "empty").rmdir()
    (data / "empty").write_text("a file now")
    os.removexattr(layer, "trusted.overlay.opaque")
    (layer / "dangling").unlink()
    (layer / "dangling").symlink_to("elsewhere")
    (saved / "docker" / "sparse").touch()  # as if its copy had been interrupted
    (data / "new").mkdir()
    index = tmp_path / "snapshot" / "index" / "rd.json"
    done: list[int] = []
    await machine.save(directory, saved, RECORD, index=index, begun=begun, report=done.append)
    assert description(saved) == description(content)
    assert (saved / "rdd.json").stat().st_ino == untouched
    assert done[0] > 0


async def test_machine_on_xfs_shares_its_blocks_with_snapshots(xfs: Path) -> None:
    root = xfs / "lima" / "rd"
    root.mkdir(parents=True)
    fill(root)
    size = 32 << 20
    (root / "docker" / "large").write_bytes(os.urandom(size))
    directory = InstanceDirectory(root)
    directory.write_record(InstanceRecord("host"))
    store = SnapshotStore([xfs / "snapshots"])
    partial = store.begin("one", root)
    assert machine.method_for(directory, partial) == "reflink"
    record = MachineRecord(driver="host", method="reflink", mode="root")
    before, saved = used_bytes(xfs), partial / MACHINES_DIR / "rd"
    await machine.save(directory, saved, record, report=lambda _: None)
    assert used_bytes(xfs) - before < size // 8
    expected = description(root)
    assert description(saved) == expected
    with (root / "docker" / "large").open("r+b") as file:  # neither sees the other's changes
        file.write(b"changed")
    assert description(saved) == expected
    replaced = await machine.restore(saved, record, directory, report=lambda _: None)
    assert description(root) == expected
    assert used_bytes(xfs) - before < size // 4
    assert replaced is not None
    machine.discard(replaced)
    store.discard(partial)
    assert description(root) == expected  # independent of the snapshot


def test_exchange_needs_both(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(HostError, match="No such file"):
        exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a").exists()


def test_probe_for_shared_blocks_leaves_nothing(tmp_path: Path) -> None:
    shares_blocks(tmp_path, tmp_path)
    assert list(tmp_path.iterdir()) == []
