# SPDX-License-Identifier: Apache-2.0
"""The disk space that directories occupy: allocated blocks, as `du` counts them.

Disk images are sparse and files may have several links: blocks are counted, each file
once. Other file systems mounted below a directory are not part of it.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's is


class Usage(NamedTuple):
    """Bytes in use; a lower bound unless `is_complete`."""

    bytes: int = 0
    is_complete: bool = True
    """False if a directory could not be read, such as one of a container's user."""


def usage(paths: Iterable[Path]) -> Usage:
    """Return the space that directories and files occupy; missing ones occupy none."""
    seen: set[tuple[int, int]] = set()
    total, is_complete = 0, True
    for path in paths:
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue
        except OSError:
            is_complete = False
            continue
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
                        stat = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if stat.st_dev != device:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif stat.st_nlink > 1:
                        if (stat.st_dev, stat.st_ino) in seen:
                            continue
                        seen.add((stat.st_dev, stat.st_ino))
                    total += stat.st_blocks * _BLOCK_BYTES
    return Usage(total, is_complete)
