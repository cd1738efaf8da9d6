# SPDX-License-Identifier: Apache-2.0
"""Logs: the last lines, what is added, rotation."""

import asyncio
from pathlib import Path

import pytest

from rdd.host.errors import HostError
from rdd.host.log_files import find_log, list_logs, read_log


async def read(path: Path, tail: int | None = None) -> str:
    return b"".join([piece async for piece in read_log(path, tail=tail)]).decode()


@pytest.mark.parametrize(
    ("text", "tail", "found"),
    [
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\n", 5, "a\nb\n"),
        ("a\nb\n", 0, ""),
        ("", 3, ""),
        ("\n\n\n", 1, "\n"),
        ("x" * 200_000 + "\nlast\n", 1, "last\n"),
        ("a\nb\n", None, "a\nb\n"),
    ],
)
async def test_tail(tmp_path: Path, text: str, tail: int | None, found: str) -> None:
    (tmp_path / "l.log").write_text(text)
    assert await read(tmp_path / "l.log", tail) == found


async def test_follows_through_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "l.log"
    path.write_text("one\n")
    stream = read_log(path, follow=True)
    async with asyncio.timeout(60):
        assert await anext(stream) == b"one\n"
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        with path.open("a") as file:
            file.write("two\n")
        assert await waiting == b"two\n"
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        path.rename(tmp_path / "l.1.log")
        path.write_text("three\n")
        assert await waiting == b"three\n"
    await stream.aclose()


async def test_missing_log(tmp_path: Path) -> None:
    with pytest.raises(HostError):
        await read(tmp_path / "none.log")


def test_only_logs_are_listed(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "key.pem").write_text("x")
    (tmp_path / "b.log").symlink_to("/etc/passwd")
    (tmp_path / "c.log").mkdir()
    assert [log["name"] for log in list_logs(tmp_path)] == ["a.log"]
    assert find_log(tmp_path, "a") == find_log(tmp_path, "a.log") == tmp_path / "a.log"
    for name in ("b.log", "../a.log", "key.pem", "", "c"):
        assert find_log(tmp_path, name) is None
    assert list_logs(tmp_path / "none") == []
