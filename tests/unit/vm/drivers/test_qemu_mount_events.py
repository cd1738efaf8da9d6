# SPDX-License-Identifier: Apache-2.0
"""Changes of shared files that are repeated in a guest: with real inotify, without a guest."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from rdd.host.commands import CommandResult
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.qemu.sharing.mount_events import MountEvents
from rdd.vm.drivers.qemu.sharing.tree_watcher import TreeWatcher
from rdd.vm.instance_dir import LimaHome
from rdd.vm.ssh import SshError
from rdd.vm.template.model import Mount, Template

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="needs inotify")


class Guest:
    """Records the paths whose times are set, and fails as often as it should."""

    def __init__(self) -> None:
        self.touched: list[str] = []
        self.failures = 0
        self.repeats: Callable[[str], None] = lambda path: None

    async def run(self, line: str, *, script: str, **more: Any) -> CommandResult:
        if self.failures:
            self.failures -= 1
            raise SshError("the guest is paused")
        assert line == "sudo -n sh -s"
        lines = script.split("<<'rdd-end-of-files'\n")[1].splitlines()
        assert lines.pop() == "rdd-end-of-files"
        for one in lines:
            time_, _, path = one.partition(" ")
            assert float(time_) > 0
            self.touched.append(path)
            self.repeats(path)
        return CommandResult((), 0, "", "")


class World:
    def __init__(self, tmp_path: Path, *, inotify: bool = False) -> None:
        self.shared, self.private = tmp_path / "shared dir", tmp_path / "private"
        for path in (self.shared / "a" / "deep", self.shared / "b", self.private):
            path.mkdir(parents=True)
        self.guest = Guest()
        self.warnings: list[str] = []
        template = Template(
            mounts=(
                Mount(location=str(self.private), mount_point="/private", writable=False),
                Mount(location=str(self.shared), mount_point="/s", writable=True),
            ),
            mount_inotify=inotify,
        )
        context = DriverContext(
            directory=LimaHome(tmp_path).directory("vm"),
            template=template,
            environment={},
            warn=self.warnings.append,
            degrade=self.warnings.append,
        )
        self.events = MountEvents(cast("Any", self.guest), context)

    async def mounted(self, line: str) -> None:
        self.events.mounted(line)
        if self.events._watch_task is not None:
            await self.events._watch_task

    async def until(self, happened: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not happened():
            assert time.monotonic() < end, self.guest.touched
            await asyncio.sleep(0.01)

    async def touched(self, path: str) -> None:
        """Wait for a change; a file outside shows that no other one came before."""
        await self.until(lambda: path in self.guest.touched)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    made.events.close()


async def test_only_what_containers_mount_is_watched(world: World) -> None:
    await world.mounted("mount1 /a|mount0 /|other /b|mount1 ../../etc|mount1|")
    (world.shared / "b" / "unseen").write_text("1")
    (world.private / "unseen").write_text("1")
    (world.shared / "a" / "deep" / "a file").write_text("1")
    await world.touched("/s/a/deep/a file")
    assert not [path for path in world.guest.touched if "unseen" in path]
    await world.mounted("mount1 /b|")
    (world.shared / "a" / "later").write_text("1")
    (world.shared / "b" / "seen").write_text("1")
    await world.touched("/s/b/seen")
    assert "/s/a/later" not in world.guest.touched
    assert not world.warnings


async def test_source_of_sshfs_and_escaped_names(world: World) -> None:
    (world.shared / "with space").mkdir()
    source = f":{world.shared}".replace(" ", "\\040")
    await world.mounted(f"{source} /with\\040space|")
    (world.shared / "with space" / "x").write_text("1")
    await world.touched("/s/with space/x")


async def test_mount_inotify_watches_everything_writable(tmp_path: Path) -> None:
    world = World(tmp_path, inotify=True)
    await world.mounted("")
    (world.private / "unseen").write_text("1")
    (world.shared / "b" / "seen").write_text("1")
    await world.touched("/s/b/seen")
    assert "/private/unseen" not in world.guest.touched
    world.events.close()


async def test_new_directories_and_removals(world: World) -> None:
    await world.mounted("mount1 /|")
    (world.shared / "new" / "below").mkdir(parents=True)
    (world.shared / "new" / "below" / "file").write_text("1")
    await world.touched("/s/new/below/file")
    world.guest.touched.clear()
    shutil.rmtree(world.shared / "new")
    await world.touched("/s")
    (world.shared / "a" / "x").write_text("1")
    (world.shared / "a" / "x").rename(world.shared / "b" / "y")
    await world.touched("/s/b/y")
    await world.touched("/s/a")


async def test_repetition_is_no_change(world: World) -> None:
    """The server of a mount sets the time, which is a change here, too."""

    def set_time(path: str) -> None:
        file = world.shared / path.removeprefix("/s/")
        if file.is_file():
            seconds = int(file.stat().st_mtime)  # as an sftp server does
            os.utime(file, (seconds, seconds))

    world.guest.repeats = set_time
    await world.mounted("mount1 /|")
    with (world.shared / "a" / "x").open("w") as file:
        file.write("1")
        file.flush()
        await world.touched("/s/a/x")
    await world.until(lambda: world.guest.touched.count("/s/a/x") == 2)  # closing is a change
    await world.until(lambda: world.events._send_task is None or world.events._send_task.done())
    count = len(world.guest.touched)
    # Only the time changes, as when the guest repeats it.
    os.utime(world.shared / "a" / "x", ns=(0, (world.shared / "a" / "x").stat().st_mtime_ns))
    (world.shared / "b" / "end").write_text("1")
    await world.touched("/s/b/end")
    assert [path for path in world.guest.touched[count:] if path != "/s/b/end"] == []
    (world.shared / "a" / "x").write_text("22")  # a real change of the same file
    await world.until(lambda: world.guest.touched[-1] == "/s/a/x")


async def test_many_changes_touch_only_their_directories(world: World) -> None:
    await world.mounted("mount1 /|")
    for number in range(500):
        (world.shared / "a" / f"f{number}").write_text("1")
    await world.touched("/s/a")
    assert len(world.guest.touched) < 500


async def test_changes_wait_for_a_guest_that_does_not_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rdd.vm.drivers.qemu.sharing.mount_events._RETRY_S", 0.01)
    world.guest.failures = 3
    await world.mounted("mount1 /|")
    (world.shared / "b" / "x").write_text("1")
    await world.touched("/s/b/x")
    assert not world.guest.failures


async def test_number_of_watches_is_bounded(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).mkdir()
    watcher = TreeWatcher(lambda path, mask: None, lambda: None, most_watches=5)
    await watcher.watch([str(tmp_path)])
    assert watcher.omitted == 16
    await watcher.watch([])
    await watcher.watch([str(tmp_path / "1")])
    assert watcher.omitted == 0
    watcher.close()
