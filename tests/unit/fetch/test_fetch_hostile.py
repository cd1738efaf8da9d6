# SPDX-License-Identifier: Apache-2.0
"""Sources that never end: a server without a length, a device, a pipe, a file of the kernel."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rdd.fetch import fetching
from rdd.fetch.cache import Cache
from rdd.fetch.fetching import fetch
from rdd.host.errors import FailureReason, HostError

MIB = 1 << 20


@contextlib.asynccontextmanager
async def endless() -> AsyncIterator[str]:
    """Serve a file whose length is unknown, without an end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(bytes(MIB))
        return response

    app = web.Application()
    app.router.add_route("*", "/{name:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}/file"
    finally:
        await runner.cleanup()


async def test_endless_download_leaves_space_and_nothing_else(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage, disk = shutil.disk_usage, 40 * MIB

    def small(path: Path) -> Any:
        found = usage(path)
        used = sum(one.stat().st_size for one in cache.root.rglob("*") if one.is_file())
        return found._replace(total=disk, used=used, free=disk - used)

    monkeypatch.setattr(shutil, "disk_usage", small)
    async with endless() as url:
        with pytest.raises(HostError, match="does not say how large it is") as caught:
            await fetch(url, "", cache=cache, report=lambda _: None)
    assert caught.value.reason is FailureReason.DISK_FULL
    left = [path for path in (cache.root / "partial").iterdir() if path.stat().st_size]
    assert left == []


def pipe(directory: Path) -> Path:
    os.mkfifo(directory / "pipe")
    return directory / "pipe"


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda directory: Path("/dev/zero"), id="device"),
        pytest.param(pipe, id="pipe"),
        pytest.param(lambda directory: directory, id="directory"),
        pytest.param(lambda directory: directory / "none", id="missing"),
    ],
)
async def test_only_files_are_read(
    make: Callable[[Path], Path], cache: Cache, tmp_path: Path
) -> None:
    with pytest.raises(HostError) as caught:
        await fetch(f"file://{make(tmp_path)}", "", cache=cache, report=lambda _: None)
    assert caught.value.reason is FailureReason.INVALID_SOURCE


async def test_reading_a_file_that_never_ends_can_be_cancelled(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As those of the kernel: /proc/kcore has 128 TiB.
    source = tmp_path / "sparse"
    with source.open("wb") as file:
        file.truncate(1 << 40)
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    pieces = fetching._pieces

    def noted(*args: Any) -> Any:
        loop.call_soon_threadsafe(begun.set)
        return pieces(*args)

    monkeypatch.setattr(fetching, "_pieces", noted)
    task = asyncio.create_task(fetch(str(source), "", cache=cache, report=lambda _: None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)


async def test_local_file_that_does_not_fit_is_not_copied(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "file"
    source.write_bytes(bytes(MIB))
    usage = shutil.disk_usage
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=MIB - 1))
    with pytest.raises(HostError, match="1 MiB are needed") as caught:
        await fetch(str(source), "", cache=cache, report=lambda _: None)
    assert caught.value.reason is FailureReason.DISK_FULL
