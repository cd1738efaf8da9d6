# SPDX-License-Identifier: Apache-2.0
"""The disk space that directories occupy: allocated blocks, as `du` counts them.

Disk images are sparse and files may have several links: blocks are counted, each file
once. Other file systems mounted below a directory are not part of it.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's is


class Usage(NamedTuple):
    """Bytes in use; a lower bound unless `is_complete`."""

    bytes: int = 0
    is_complete: bool = True
    """False if a directory could not be read, such as one of a container's user."""


def usage(paths: Iterable[Path], seen: set[tuple[int, int]] | None = None) -> Usage:
    """Return the space that directories and files occupy; missing ones occupy none.

    Files with several links that are in `seen` are not counted; those that are counted are added.
    """
    seen = set() if seen is None else seen
    total, is_complete = 0, True
    for path in paths:
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        except OSError:
            is_complete = False
            continue
        if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
            if (found.st_dev, found.st_ino) in seen:
                continue
            seen.add((found.st_dev, found.st_ino))
        device, pending = found.st_dev, [str(path)]
        total += found.st_blocks * _BLOCK_BYTES
        while pending:
            try:
                entries = os.scandir(pending.pop())
            except (FileNotFoundError, NotADirectoryError):
                continue  # removed meanwhile, or the path itself is a file
            except OSError:
                is_complete = False
                continue
            with entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if status.st_dev != device:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif status.st_nlink > 1:
                        if (status.st_dev, status.st_ino) in seen:
                            continue
                        seen.add((status.st_dev, status.st_ino))
                    total += status.st_blocks * _BLOCK_BYTES
    return Usage(total, is_complete)
