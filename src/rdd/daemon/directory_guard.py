# SPDX-License-Identifier: Apache-2.0
"""Notices that the directory of the instance was removed or renamed under a running daemon.

Such a daemon serves a database without a name: what it acknowledges is lost with its end, and a
command that starts the instance creates another one in its place. inotify reports removals in the
directory and in every directory above it up to the home directory; each report is checked against
the directory that was opened at the start. Nothing else wakes the daemon for it.

The removed directory itself is not enough to watch: it is the working directory of the daemon, so
the kernel keeps it, and reports its removal only to watchers of its parent.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.file_watcher import FileWatcher

log = logging.getLogger("rdd.daemon")


@contextmanager
def watching(directory: Path, home: Path, on_lost: Callable[[], None]) -> Iterator[None]:
    """Call `on_lost` when `directory` is not the present one any more, while the block runs."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    changes = FileWatcher()

    def check() -> None:
        if not _is_same(directory, descriptor):
            on_lost()

    try:
        for path in _chain(directory, home):
            try:
                changes.watch(path, check, removals_only=True)
            except HostError as error:
                log.warning("a removal of the directory may go unnoticed: %s", error)
        check()  # it may have been removed before it was watched
        yield
    finally:
        changes.close()
        os.close(descriptor)


def _chain(directory: Path, home: Path) -> Iterator[Path]:
    """Yield the directory and those above it, up to the home directory."""
    yield directory
    for parent in directory.parents:
        yield parent
        if parent == home:
            return


def _is_same(directory: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(directory.stat(), os.fstat(descriptor))
    except OSError:
        return False
