# SPDX-License-Identifier: Apache-2.0
"""The folder of a build as a stream of tar.

A thread walks the folder; what it has read waits in a queue of a few hundred kilobytes until
the engine takes it. `.dockerignore` has the rules of Docker: patterns relative to the root,
`**` for any number of folders, `!` for exceptions, the last match decides. A folder is skipped
as a whole unless an exception may be below it.
"""

import asyncio
import os
import re
import tarfile
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_QUEUE_PIECES = 8
_PIECE_BYTES = 64 * 1024
_IGNORE_FILE = ".dockerignore"
_MAX_IGNORE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of a `.dockerignore`."""

    rules: Sequence[tuple[re.Pattern[str], bool]]
    """Pattern, and whether it is an exception."""
    has_exceptions: bool

    @classmethod
    def parse(cls, text: str) -> "IgnoreRules":
        """Parse the text of the file; malformed patterns are matched literally."""
        rules = []
        for line in text.lstrip("\ufeff").splitlines():
            pattern = line.strip()
            if not pattern or pattern.startswith("#"):
                continue
            is_exception = pattern.startswith("!")
            pattern = os.path.normpath(pattern.removeprefix("!").strip()).strip("/")
            if pattern not in ("", "."):
                rules.append((re.compile(_expression(pattern)), is_exception))
        return cls(rules, any(is_exception for _, is_exception in rules))

    def ignores(self, path: str) -> bool:
        """Return whether a path, relative to the root, is left out."""
        ignored = False
        for pattern, is_exception in self.rules:
            if is_exception == ignored and pattern.match(path):
                ignored = not is_exception
        return ignored


def _expression(pattern: str) -> str:
    """Return the regular expression of a pattern; it also matches everything below."""
    found, i = "", 0
    while i < len(pattern):
        char = pattern[i]
        if pattern.startswith("**", i):
            i += 2
            if pattern.startswith("/", i):
                i += 1
                found += "(?:[^/]+/)*"
            else:
                found += ".*"
            continue
        if char == "*":
            found += "[^/]*"
        elif char == "?":
            found += "[^/]"
        elif char == "[" and "]" in pattern[i + 2 :]:
            end = pattern.index("]", i + 2)
            inside = pattern[i + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            found += f"[{inside}]"
            i = end
        elif char == "\\" and i + 1 < len(pattern):
            i += 1
            found += re.escape(pattern[i])
        else:
            found += re.escape(char)
        i += 1
    return f"{found}(?:/.*)?\\Z"


async def tar_of(folder: Path, dockerfile: str) -> AsyncIterator[bytes]:
    """Yield a tar of a folder. Raises OSError."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE_PIECES)
    is_cancelled = False

    def put(piece: bytes | None) -> None:
        if is_cancelled:
            raise BrokenPipeError("the build was cancelled")
        asyncio.run_coroutine_threadsafe(queue.put(piece), loop).result()

    def produce() -> None:
        try:
            writer: Any = _Writer(put)  # tarfile needs `write` only
            with tarfile.open(fileobj=writer, mode="w|", bufsize=_PIECE_BYTES) as tar:
                _add(tar, folder, _rules(folder), kept=(_IGNORE_FILE, os.path.normpath(dockerfile)))
        finally:
            put(None)

    producing = loop.run_in_executor(None, produce)
    try:
        while (piece := await queue.get()) is not None:
            yield piece
        await producing
    finally:
        is_cancelled = True
        while not producing.done():
            if not queue.empty():
                queue.get_nowait()
            await asyncio.wait({producing}, timeout=0.01)
        producing.exception()


class _Writer:
    """The file object of tarfile."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        self._put = put

    def write(self, data: bytes) -> int:
        self._put(bytes(data))
        return len(data)


def _rules(folder: Path) -> IgnoreRules:
    try:
        with (folder / _IGNORE_FILE).open("rb") as file:
            return IgnoreRules.parse(file.read(_MAX_IGNORE_BYTES).decode("utf-8", "replace"))
    except FileNotFoundError:
        return IgnoreRules((), has_exceptions=False)


def _add(tar: tarfile.TarFile, folder: Path, rules: IgnoreRules, *, kept: Sequence[str]) -> None:
    pending = [""]
    while pending:
        base = pending.pop()
        with os.scandir(folder / base) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            path = f"{base}/{entry.name}" if base else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            is_ignored = rules.ignores(path) and path not in kept
            if is_folder and (not is_ignored or rules.has_exceptions or _leads_to(path, kept)):
                pending.append(path)
            if not is_ignored:
                _add_entry(tar, Path(entry.path), path, is_folder=is_folder)


def _leads_to(path: str, kept: Sequence[str]) -> bool:
    return any(each.startswith(f"{path}/") for each in kept)


def _add_entry(tar: tarfile.TarFile, path: Path, name: str, *, is_folder: bool) -> None:
    info = tar.gettarinfo(path, name)
    if info is None:
        return  # a socket
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    if not info.isreg():
        tar.addfile(info)
        return
    with path.open("rb") as file:
        tar.addfile(info, file)
