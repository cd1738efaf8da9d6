# SPDX-License-Identifier: Apache-2.0
"""Callbacks for changes of files and directories.

On Linux with inotify, called through ctypes: one descriptor for all files, read by the event
loop. Elsewhere files are polled once a second: kqueue of macOS reports changes only of files
that are kept open, which would prevent the user from ejecting disks.
"""

import asyncio
import ctypes
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

from rdd.host.errors import HostError

_MODIFY, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x8, 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_CHANGES = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_REMOVALS = _MOVED_FROM | _DELETE | _DELETE_SELF | _MOVE_SELF
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_HEADER = struct.Struct("iIII")
_POLL_S = 1.0


class FileWatcher:
    """Watches paths in one event loop, until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0
        self._libc: ctypes.CDLL | None = None
        self._descriptor = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._descriptor = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        if self._descriptor >= 0:
            self._loop.add_reader(self._descriptor, self._read)

    def watch(
        self, path: Path, callback: Callable[[], None], *, removals_only: bool = False
    ) -> int:
        """Call `callback` after each change of a file, or of the entries of a directory.

        With `removals_only` only after removals and renames, of the path itself, too. Several
        changes may cause one call, and a call may occur without a change. Returns a handle for
        `unwatch`. Raises HostError.
        """
        if self._libc is None or self._descriptor < 0:
            self._next += 1
            self._callbacks[self._next] = callback
            self._schedule_poll()
            return self._next
        mask = _REMOVALS if removals_only else _CHANGES
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(path), mask)
        if number < 0:
            code = ctypes.get_errno()
            raise HostError.from_os(f'watch "{path}"', OSError(code, os.strerror(code)))
        self._callbacks[number] = callback
        return int(number)

    def unwatch(self, number: int) -> None:
        if self._callbacks.pop(number, None) is not None and self._libc and self._descriptor >= 0:
            self._libc.inotify_rm_watch(self._descriptor, number)  # fails if the file is gone

    def close(self) -> None:
        self._callbacks.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 1 << 16)
        except BlockingIOError:
            return
        offset = 0
        changed: dict[int, None] = {}
        while offset < len(data):
            number, _mask, _cookie, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size + length
            changed[number] = None
        # -1 means that events were lost: every path may have changed.
        for number in list(self._callbacks if -1 in changed else changed):
            if callback := self._callbacks.get(number):
                callback()

    def _schedule_poll(self) -> None:
        if self._timer is None and self._callbacks:
            self._timer = self._loop.call_later(_POLL_S, self._poll)

    def _poll(self) -> None:
        self._timer = None
        for callback in list(self._callbacks.values()):
            callback()
        self._schedule_poll()
