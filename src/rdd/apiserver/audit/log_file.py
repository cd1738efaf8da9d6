# SPDX-License-Identifier: Apache-2.0
"""The file of the audit log, with the rotation of kube-apiserver.

A file that would exceed its size is renamed to `<name>-<time><extension>` beside it. Old files are
removed beyond a number or an age. Events are written before the response is sent, in one write
each, so lines of concurrent requests never mix. If the disk is full, events are lost and the
reason is logged once; requests do not fail.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger("rdd.apiserver.audit")

_MIB = 1 << 20
_DEFAULT_MIB = 100
_DAY_S = 24 * 3600.0


class AuditLogFile:
    """Writes lines; `maximum_mib`, `backups` and `days` of 0 mean 100 MiB and no limit."""

    def __init__(
        self,
        path: str,
        *,
        maximum_mib: int = 0,
        backups: int = 0,
        days: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the file. Raises OSError."""
        self._path = None if path == "-" else Path(path)
        self._limit = (maximum_mib or _DEFAULT_MIB) * _MIB
        self._backups = backups
        self._days = days
        self._clock = clock
        self._has_failed = False
        self._size = 0
        self._descriptor = self._open()

    def write(self, line: bytes) -> None:
        """Append a line."""
        try:
            if self._path is not None and self._size and self._size + len(line) > self._limit:
                self._rotate(self._path)
            view = memoryview(line)
            while view:
                view = view[os.write(self._descriptor, view) :]
            self._size += len(line)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                self._has_failed = True
                log.error("audit events are lost: %s", error.strerror or error)

    def close(self) -> None:
        """Close the file."""
        if self._path is not None:
            os.close(self._descriptor)

    def _open(self) -> int:
        if self._path is None:
            return sys.stdout.fileno()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        self._size = os.fstat(descriptor).st_size
        return descriptor

    def _rotate(self, path: Path) -> None:
        now = self._clock()
        fraction = int(now * 1000) % 1000
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime(now))
        path.rename(path.with_name(f"{path.stem}-{stamp}.{fraction:03}{path.suffix}"))
        descriptor = self._open()
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._remove_old(path, now)

    def _remove_old(self, path: Path, now: float) -> None:
        pattern = f"{path.stem}-????-??-??T??-??-??.???{path.suffix}"
        old = sorted(path.parent.glob(pattern), reverse=True)
        for position, found in enumerate(old):
            is_too_many = 0 < self._backups <= position
            is_too_old = self._days and found.stat().st_mtime < now - self._days * _DAY_S
            if is_too_many or is_too_old:
                found.unlink(missing_ok=True)
