# SPDX-License-Identifier: Apache-2.0
"""Removal of directories, also of those with files of a rootless container engine.

Containers of an ordinary user leave files that belong to the subordinate ids of that user. They
can be removed only in a user namespace with these ids, which RootlessKit creates; a rootless
engine requires it, so it is installed.
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
    """Remove a tree with files of subordinate ids; return whether it is gone."""
    program = None if os.geteuid() == 0 else shutil.which(_PROGRAM)
    if program is None:
        return False
    try:
        run_blocking(program, "rm", "-rf", "--", path, timeout_s=_TIMEOUT_S)
    except HostError:
        return False
    return not path.exists()
