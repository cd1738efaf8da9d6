# SPDX-License-Identifier: Apache-2.0
"""Exchange two directories in one step, so that a crash leaves either the old or the new one."""

import ctypes
import errno
import os
import sys
from pathlib import Path

from rdd.host.errors import HostError

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # renameat2 of Linux
_RENAME_SWAP = 2  # renamex_np of macOS


def exchange(first: Path, second: Path) -> None:
    """Exchange two existing paths on one file system, durably. Raises HostError."""
    library = ctypes.CDLL(None, use_errno=True)
    one, other = os.fsencode(first), os.fsencode(second)
    if sys.platform == "darwin":
        status = library.renamex_np(one, other, ctypes.c_uint(_RENAME_SWAP))
    else:
        status = library.renameat2(
            _AT_FDCWD, one, _AT_FDCWD, other, ctypes.c_uint(_RENAME_EXCHANGE)
        )
    if status != 0:
        number = ctypes.get_errno()
        if number in (errno.EINVAL, errno.ENOSYS):
            raise HostError(
                f'the file system of "{first}" cannot exchange directories; nothing was changed'
            )
        raise HostError.from_os(
            f'exchange "{first}" and "{second}"', OSError(number, os.strerror(number))
        )
    for parent in {first.parent, second.parent}:
        descriptor = os.open(parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
