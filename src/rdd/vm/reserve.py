# SPDX-License-Identifier: Apache-2.0
"""A file in a machine's directory whose space lets the machine start on a full disk.

A start writes pid files, logs and the files of the engine. Without space it fails, and the
images and containers that fill the disk could never be removed. So a start, and a prune, with
too little free space delete the reserve; a start with enough of it allocates it again. Nothing
depends on the file: every failure is ignored.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path

NAME = "reserve"
SIZE_BYTES = 64 << 20
_LEAST_BYTES = 64 << 20
_ENOUGH_BYTES = 2 << 30


def prepare(directory: Path) -> None:
    """Free the reserve of a machine if space is short; allocate it if there is enough."""
    if release_if_short(directory):
        return
    path = directory / NAME
    with suppress(OSError):
        if path.exists() or shutil.disk_usage(directory).free < _ENOUGH_BYTES:
            return
        try:
            with path.open("xb") as file:
                os.posix_fallocate(file.fileno(), 0, SIZE_BYTES)
        except OSError:
            path.unlink(missing_ok=True)


def release_if_short(directory: Path) -> bool:
    """Free the reserve of a machine if space is short; return whether it is."""
    with suppress(OSError):
        if shutil.disk_usage(directory).free >= _LEAST_BYTES:
            return False
        (directory / NAME).unlink(missing_ok=True)
        return True
    return False
