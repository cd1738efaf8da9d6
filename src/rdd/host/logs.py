# SPDX-License-Identifier: Apache-2.0
"""Rotation of log files at the start of a process.

`rdd.stderr.log` becomes `rdd.stderr.<n>.log`, where n is one more than the highest number so
far, and a new `rdd.stderr.log` is created. Numbers only grow, so a rotated file keeps its name
and a higher number is always newer. The caller MUST hold the lock that makes it the only
process that starts this program: two concurrent rotations would pick the same number.
"""

import os
import re
from pathlib import Path

from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import open_new

KEEP = 5  # rotated files besides the current one


def rotate(
    directory: Path, name: str, *, keep_all: bool = False, create: bool = True, first_line: str = ""
) -> Path:
    """Rotate `<name>.log`, delete the oldest rotated files, return the path of the new log.

    `keep_all` deletes nothing. With `create=False` no new file is created, for logs that
    another program opens itself. A `first_line` is written to the new file. Raises HostError.
    """
    make_private_dir(directory)
    log = directory / f"{name}.log"
    try:
        rotated = _rotated(directory, name)
        if log.exists():
            number = max(rotated, default=0) + 1
            log.rename(rotated.setdefault(number, directory / f"{name}.{number}.log"))
        if not keep_all:
            for number in sorted(rotated)[:-KEEP]:
                rotated[number].unlink()
        if create:
            with os.fdopen(open_new(log), "w") as file:
                file.write(f"{first_line}\n" if first_line else "")
    except OSError as error:
        raise HostError.from_os(f'rotate log file "{log}"', error) from error
    return log


def _rotated(directory: Path, name: str) -> dict[int, Path]:
    pattern = re.compile(re.escape(name) + r"\.([1-9][0-9]*)\.log")
    matches = ((pattern.fullmatch(path.name), path) for path in directory.iterdir())
    return {int(match[1]): path for match, path in matches if match}
