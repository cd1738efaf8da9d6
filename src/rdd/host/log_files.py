# SPDX-License-Identifier: Apache-2.0
"""Log files of a directory: which there are, the last lines of one, and what is added to it.

Following waits for changes of the directory (inotify), not for a timer. A log that is rotated
ends; the file that replaces it is read from its start.
"""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, BinaryIO

from rdd.host.errors import HostError
from rdd.host.file_watcher import FileWatcher

_SUFFIX = ".log"
_CHUNK_BYTES = 64 * 1024
_MAX_DIGITS = 9
MAX_TAIL_BYTES = 8 * 1024 * 1024
"""Lines further from the end are not part of a tail."""


def list_logs(directory: Path) -> list[dict[str, Any]]:
    """Return the logs of a directory with name, size and time of change."""
    found = []
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return []
    for entry in sorted(entries, key=lambda e: e.name):
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if entry.name.endswith(_SUFFIX) and stat.S_ISREG(status.st_mode):
            found.append(
                {"name": entry.name, "size": status.st_size, "modified": int(status.st_mtime)}
            )
    return found


def find_log(directory: Path, name: str) -> Path | None:
    """Return the path of a log; None unless `list_logs` names it, with or without `.log`."""
    known = {each["name"] for each in list_logs(directory)}
    for candidate in (name, name + _SUFFIX):
        if candidate in known:
            return directory / candidate
    return None


def is_tail(text: str) -> bool:
    """Return whether a text is a number of lines, `all`, or empty, which is all, too."""
    return text in ("", "all") or (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS)


async def read_log(
    path: Path, *, tail: int | None = None, follow: bool = False
) -> AsyncGenerator[bytes, None]:
    """Yield the last lines of a log, or all of it, and with `follow` what is added.

    Raises HostError.
    """
    changed = asyncio.Event()
    watcher = FileWatcher() if follow else None
    try:
        if watcher is not None:
            watcher.watch(path.parent, changed.set)
        is_first = True
        while True:
            try:
                file = path.open("rb")
            except FileNotFoundError:
                if not follow or is_first:
                    raise
                await changed.wait()
                changed.clear()
                continue
            with file:
                if is_first and tail is not None:
                    file.seek(await asyncio.to_thread(_tail_offset, file, tail))
                is_first = False
                while True:
                    changed.clear()
                    while data := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                        yield data
                    if not follow:
                        return
                    if _is_replaced(path, file):
                        break
                    await changed.wait()
    except OSError as error:
        raise HostError.from_os(f'read "{path}"', error) from error
    finally:
        if watcher is not None:
            watcher.close()


def _tail_offset(file: BinaryIO, lines: int) -> int:
    """Return where the last lines of a file begin."""
    end = file.seek(0, os.SEEK_END)
    if not lines:
        return end
    position, wanted, is_last = end, lines, True
    while position > 0 and end - position < MAX_TAIL_BYTES:
        start = max(0, position - _CHUNK_BYTES)
        file.seek(start)
        block = file.read(position - start)
        index = len(block)
        if is_last and block.endswith(b"\n"):
            index -= 1  # the end of the last line
        is_last = False
        while (index := block.rfind(b"\n", 0, index)) >= 0:
            wanted -= 1
            if wanted <= 0:
                return start + index + 1
        position = start
    return position


def _is_replaced(path: Path, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return True
