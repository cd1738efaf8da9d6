# SPDX-License-Identifier: Apache-2.0
"""Whether files of a directory can give space back while they exist: holes.

A disk image shrinks by holes where the guest discards blocks. Some file systems cannot (NFS
before 4.2, FAT), and an emulator ignores that.
"""

import ctypes
import errno
import os
import sys
import tempfile
from pathlib import Path

_KEEP_SIZE, _PUNCH_HOLE = 0x1, 0x2
_BLOCK_BYTES = 4096


def can_punch_holes(directory: Path) -> bool:
    """Return False if the file system refuses holes; True if it allows them or is unknown."""
    if sys.platform != "linux":
        return True
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            os.ftruncate(file.fileno(), _BLOCK_BYTES)
            mode = _PUNCH_HOLE | _KEEP_SIZE
            if libc.fallocate(file.fileno(), mode, 0, _BLOCK_BYTES) == 0:
                return True
            return ctypes.get_errno() not in (errno.EOPNOTSUPP, errno.ENOSYS)
    except OSError:
        return True
