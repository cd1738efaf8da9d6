# SPDX-License-Identifier: Apache-2.0
"""The executable this process was started as.

The same file is reached under several names: a copy, a symlink or hard link in some
`bin` directory, `kubectl` and `yq` as links to it. The name selects what it does; later
processes (the daemon, published links) start the same path again.
"""

import os
import sys
from typing import NamedTuple

MULTICALL = ("kubectl", "yq")


class Program(NamedTuple):
    """This executable as the user started it."""

    path: str  # absolute, links not resolved
    command: tuple[str, ...]  # what starts it again

    @property
    def multicall(self) -> str:
        """Return the command that the executable's name stands for; empty for plain rdd."""
        name = os.path.basename(self.path).split(".", 1)[0]  # noqa: PTH119 - text, not a path
        return name if name in MULTICALL else ""


def program(argv0: str, *, interpreter: str = sys.executable) -> Program:
    """Describe the program that was started as `argv0`.

    With `python -m rdd` that is the file of the module, which is not executable.
    """
    path = os.path.abspath(argv0)  # noqa: PTH100 - links must stay unresolved
    if path.endswith("__main__.py"):
        return Program(path, (interpreter, "-m", "rdd"))
    return Program(path, (path,))
