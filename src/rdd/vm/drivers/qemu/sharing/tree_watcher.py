# SPDX-License-Identifier: Apache-2.0
"""Callbacks with the paths that change below directories, through inotify of Linux.

Every directory below a root has a watch; new ones get theirs when they appear. The number of
watches is bounded, because those of a user are: what does not fit is counted, not watched.
"""

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator

from rdd.host.errors import HostError

MODIFY, CLOSE_WRITE, MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
GONE = MOVED_FROM | DELETE
IS_DIRECTORY = 0x40000000
_CHANGES = MODIFY | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE
_DONT_FOLLOW, _IGNORED, _OVERFLOW = 0x02000000, 0x8000, 0x4000
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 18


class TreeWatcher:
    """Watches directories with all below them in one event loop, until `close`.

    Raises HostError if the system has no such events.
    """

    def __init__(
        self,
        changed: Callable[[str, int], None],
        lost: Callable[[], None],
        *,
        most_watches: int = 16384,
    ) -> None:
        """`changed` gets path and event bits; `lost` means that events are missing."""
        if sys.platform != "linux":
            raise HostError("file events of this system are not supported")
        self._changed, self._lost = changed, lost
        self._most = most_watches
        self._roots: frozenset[str] = frozenset()
        self._paths: dict[int, str] = {}
        self.omitted = 0
        """The directories that are not watched."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._descriptor < 0:
            raise HostError(f"no file events: {os.strerror(ctypes.get_errno())}")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    async def watch(self, roots: Iterable[str]) -> None:
        """Watch these directories and files instead of the former ones."""
        wanted = frozenset(roots)
        for number, path in list(self._paths.items()):
            if not _is_below(path, wanted):
                del self._paths[number]
                self._libc.inotify_rm_watch(self._descriptor, number)
        added = wanted - self._roots
        self._roots = wanted
        self.omitted = 0
        for root in sorted(added):
            # Walking through a large tree blocks.
            await asyncio.to_thread(self._add_tree, root)

    def _add_tree(self, root: str) -> None:
        for path in _directories(root):
            if self._descriptor < 0:
                return
            if len(self._paths) >= self._most:
                self.omitted += 1
                continue
            number = int(
                self._libc.inotify_add_watch(
                    self._descriptor, os.fsencode(path), _CHANGES | _DONT_FOLLOW
                )
            )
            if number >= 0:
                self._paths[number] = path
            elif os.path.isdir(path):  # noqa: PTH112 - the limit of the user
                self.omitted += 1

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            number, mask, _cookie, length = _HEADER.unpack_from(data, offset)
            start = offset + _HEADER.size
            name = os.fsdecode(data[start : start + length].rstrip(b"\0"))
            offset = start + length
            if mask & _OVERFLOW:
                self._lost()
            elif mask & _IGNORED:
                self._paths.pop(number, None)
            elif (directory := self._paths.get(number)) is not None:
                path = f"{directory}/{name}" if name else directory
                self._changed(path, mask)
                if mask & IS_DIRECTORY and mask & (CREATE | MOVED_TO):
                    self._add_new(path)

    def _add_new(self, directory: str) -> None:
        """Watch a new directory, and report the files that came before the watch."""
        self._add_tree(directory)
        for path in _directories(directory):
            try:
                with os.scandir(path) as entries:
                    found = [one.path for one in entries if not one.is_dir(follow_symlinks=False)]
            except OSError:
                continue
            for one in found:
                self._changed(one, CREATE)

    def close(self) -> None:
        """Stop watching."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
        self._paths.clear()


def _is_below(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(f"{root.rstrip('/')}/") for root in roots)


def _directories(root: str) -> Iterator[str]:
    """Yield a path and all directories below it, parents first."""
    yield root
    pending = [root]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                found = [one.path for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        yield from found
        pending += found
