# SPDX-License-Identifier: Apache-2.0
"""What of a folder is sent to a build: the rules of .dockerignore."""

import asyncio
import io
import os
import tarfile
from pathlib import Path

import pytest

from rdd.controllers.containers.build_context import IgnoreRules, tar_of


@pytest.mark.parametrize(
    ("rules", "path", "is_ignored"),
    [
        ("node_modules", "node_modules", True),
        ("node_modules", "node_modules/a/b", True),
        ("node_modules", "sub/node_modules", False),
        ("**/node_modules", "sub/node_modules/x", True),
        ("**/node_modules", "node_modules", True),
        ("*.log", "a.log", True),
        ("*.log", "sub/a.log", False),
        ("**/*.log", "sub/deep/a.log", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[ab].txt", "a.txt", True),
        ("[ab].txt", "c.txt", False),
        ("/top", "top", True),
        ("./top/", "top/x", True),
        ("*\n!keep", "keep", False),
        ("*\n!keep", "other", True),
        ("*\n!sub/keep\nsub/keep/not", "sub/keep/not", True),
        ("# comment\n\n  spaced  ", "spaced", True),
        ("docs/**", "docs/a/b", True),
        ("a\\*b", "a*b", True),
        ("a\\*b", "axb", False),
        ("", "x", False),
        ("[", "[", True),
    ],
)
def test_rules(rules: str, path: str, is_ignored: bool) -> None:
    assert IgnoreRules.parse(rules).ignores(path) is is_ignored


async def names(folder: Path, dockerfile: str = "Dockerfile") -> set[str]:
    data = b"".join([piece async for piece in tar_of(folder, dockerfile)])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return set(tar.getnames())


async def test_folder(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("Dockerfile", "kept", "secret", "sub/kept", "sub/secret"):
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to("kept")
    (tmp_path / "broken").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / ".dockerignore").write_text("**/secret\nDockerfile\npipe\n")
    assert await names(tmp_path) == {
        "Dockerfile", ".dockerignore", "kept", "sub", "sub/kept", "link", "broken",
    }  # fmt: skip


async def test_exceptions_below_an_ignored_folder(tmp_path: Path) -> None:
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "keep").write_text("x")
    (tmp_path / "out" / "drop").write_text("x")
    (tmp_path / ".dockerignore").write_text("out\n!out/deep/keep\n")
    assert await names(tmp_path) == {".dockerignore", "out/deep/keep"}


async def test_large_folder_is_streamed_and_can_be_abandoned(tmp_path: Path) -> None:
    for i in range(50):
        (tmp_path / f"f{i}").write_bytes(bytes(200_000))
    stream = tar_of(tmp_path, "Dockerfile")
    assert await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    assert len(await names(tmp_path)) == 50


async def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await names(tmp_path / "none")
