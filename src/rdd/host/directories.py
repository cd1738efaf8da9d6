# SPDX-License-Identifier: Apache-2.0
"""Directories that only their owner may enter.

`make_private_dir` sets the mode when it creates a directory and never afterwards: an existing one
may be one that the user chose (`RDD_LOG_DIR=/var/log/mine`), and to close it for others would be
damage. `make_own_dir` is for directories whose name is ours: it closes an existing one, too.
"""

import os
import stat
from pathlib import Path

from rdd.host.errors import HostError


def make_private_dir(path: Path) -> None:
    """Create `path` (mode 0700) and its missing parents. Raises HostError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise HostError(
            f'failed to create directory "{path}": "{error.filename}" is not a directory'
        ) from error
    except OSError as error:
        raise HostError.from_os(f'create directory "{path}"', error) from error


def make_own_dir(path: Path) -> None:
    """Create `path`, or close it for others if it is a directory of this user. Raises HostError."""
    make_private_dir(path)
    try:
        found = path.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o077:
            path.chmod(0o700)
    except OSError as error:
        raise HostError.from_os(f'set the mode of "{path}"', error) from error
