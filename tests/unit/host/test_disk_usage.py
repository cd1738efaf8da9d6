# SPDX-License-Identifier: Apache-2.0
"""Disk space of directories, and memory of process trees."""

import os
import sys
from pathlib import Path

from tests.programs import start_program

from rdd.host.usage.disk import usage
from rdd.host.usage.memory import tree_bytes

MIB = 1024 * 1024


def test_counts_allocated_blocks_and_each_file_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "below").mkdir(parents=True)
    (tree / "data").write_bytes(b"x" * MIB)
    os.link(tree / "data", tree / "below" / "again")
    (tree / "link").symlink_to(tree / "data")
    with (tree / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    found = usage([tree, tmp_path / "missing"])
    assert found.is_complete
    assert MIB <= found.bytes < 2 * MIB


def test_a_file_is_its_own_tree(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * MIB)
    assert usage([file]).bytes >= MIB


def test_memory_of_a_process_includes_its_children() -> None:
    code = "import subprocess,sys;subprocess.run([sys.executable,'-c',{!r}])"
    child = "x=bytearray(50*1024*1024);print('up',flush=True);input()"
    with start_program([sys.executable, "-c", code.format(child)], stdin=-1) as program:
        assert program.read_until() == ["up\n"]
        found = tree_bytes([program.pid])
    assert found is not None and found > 50 * MIB
    assert tree_bytes([]) == 0
