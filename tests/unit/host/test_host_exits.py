# SPDX-License-Identifier: Apache-2.0
"""Notification of ended processes and changed files."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.programs import start_program

from rdd.host import exits
from rdd.host.errors import HostError
from rdd.host.exits import ended_within, wait_ended
from rdd.host.file_watcher import FileWatcher
from rdd.host.processes import Identity, identity, own_identity, started_at


@pytest.fixture
def child() -> Iterator[Identity]:
    with start_program(["sleep", "600"]) as process:
        found = identity(process.pid)
        assert found is not None
        yield found


async def test_end_of_a_process_is_reported(child: Identity) -> None:
    waiting = asyncio.create_task(wait_ended(child))
    await asyncio.sleep(0)
    assert not waiting.done()
    os.kill(child.pid, signal.SIGKILL)
    await asyncio.wait_for(waiting, 120)


async def test_ended_process_is_not_waited_for() -> None:
    await wait_ended(Identity(own_identity().pid, "another"))
    assert await ended_within(Identity(2**22 + 1, "never"), 0)


async def test_live_process_times_out(child: Identity) -> None:
    assert not await ended_within(child, 0)
    assert not await ended_within(child, 0.01)


async def test_process_is_polled_without_a_descriptor(
    child: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exits, "_descriptor", lambda _: -1)
    monkeypatch.setattr(exits, "_POLL_S", 0.01)
    waiting = asyncio.create_task(wait_ended(child))
    os.kill(child.pid, signal.SIGKILL)
    await asyncio.wait_for(waiting, 120)


def test_start_time_is_exact_to_a_second(child: Identity) -> None:
    started = started_at(child)
    assert started is not None
    assert abs(time.time() - started) < 60
    assert started_at(Identity(1, "at some time")) is None


@pytest.fixture
async def changes() -> AsyncIterator[FileWatcher]:
    found = FileWatcher()
    yield found
    found.close()


async def test_write_to_a_file_is_reported(changes: FileWatcher, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    told = asyncio.Event()
    number = changes.watch(path, told.set)
    with path.open("a") as file:
        file.write("x")
    await asyncio.wait_for(told.wait(), 120)
    changes.unwatch(number)
    changes.unwatch(number)


async def test_new_directory_entry_is_reported(changes: FileWatcher, tmp_path: Path) -> None:
    told = asyncio.Event()
    changes.watch(tmp_path, told.set)
    (tmp_path / "new").touch()
    await asyncio.wait_for(told.wait(), 120)


async def test_unwatched_file_calls_nothing(changes: FileWatcher, tmp_path: Path) -> None:
    calls: list[str] = []
    other = tmp_path / "other"
    other.mkdir()
    told = asyncio.Event()
    changes.unwatch(changes.watch(tmp_path, lambda: calls.append("x")))
    changes.watch(other, told.set)
    (tmp_path / "new").touch()
    (other / "new").touch()
    await asyncio.wait_for(told.wait(), 120)
    assert calls == []


async def test_missing_file_cannot_be_watched(changes: FileWatcher, tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r'failed to watch ".*none": No such file or directory'):
        changes.watch(tmp_path / "none", print)


async def test_files_are_polled_without_inotify(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rdd.host.file_watcher.sys.platform", "darwin")
    monkeypatch.setattr("rdd.host.file_watcher._POLL_S", 0.01)
    changes = FileWatcher()
    told = asyncio.Event()
    number = changes.watch(tmp_path, told.set)
    await asyncio.wait_for(told.wait(), 120)
    changes.unwatch(number)
    changes.close()
