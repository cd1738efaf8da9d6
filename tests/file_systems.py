# SPDX-License-Identifier: Apache-2.0
"""File systems in loop files, for what depends on the sort of a file system."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.programs import run_program


def mounted_xfs(folder: Path, real_part: Callable[[str], Path]) -> Iterator[Path]:
    """Mount an empty xfs, which shares blocks between files: the body of a fixture."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    image, point = folder / "image", folder / "xfs"
    with image.open("wb") as file:
        file.truncate(512 << 20)
    run_program([real_part("mkfs.xfs"), "-q", "-m", "reflink=1", image], check=True)
    point.mkdir()
    done = run_program(["mount", "-o", "loop", str(image), str(point)])
    if done.returncode != 0:
        pytest.skip(f"root cannot mount xfs on this machine: {done.stderr.strip()}")
    try:
        yield point
    finally:
        run_program(["umount", str(point)], check=True)


def used_bytes(path: Path) -> int:
    """Return the space that is in use on the file system of a path."""
    os.sync()
    status = os.statvfs(path)
    return (status.f_blocks - status.f_bfree) * status.f_frsize
