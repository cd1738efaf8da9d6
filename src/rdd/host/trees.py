# SPDX-License-Identifier: Apache-2.0
"""Removing directories, also those with files of a rootless container engine.

Containers of an ordinary user leave files that belong to the subordinate ids of that
user. Only from a user namespace with these ids can they be removed; RootlessKit, without
which there is no such engine, makes one.
"""

import os
import shutil
from pathlib import Path

from rdd.host.commands import run_blocking
from rdd.host.errors import HostError

_PROGRAM = "rootlesskit"
_TIMEOUT_S = 300.0


def remove_tree(path: Path) -> None:
    """Remove a directory and everything in it. Raises OSError."""
    try:
        shutil.rmtree(path)
    except PermissionError:
        if not remove_as_mapped_root(path):
            raise


def remove_as_mapped_root(path: Path) -> bool:
    """Remove what belongs to subordinate ids of this user; False if that did not work."""
    program = None if os.geteuid() == 0 else shutil.which(_PROGRAM)
    if program is None:
        return False
    try:
        run_blocking(program, "rm", "-rf", "--", path, timeout_s=_TIMEOUT_S)
    except HostError:
        return False
    return not path.exists()
