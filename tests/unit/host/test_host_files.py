# SPDX-License-Identifier: Apache-2.0
"""Files are replaced atomically."""

import os
import stat
from pathlib import Path

import pytest

from rdd.host.errors import HostError
from rdd.host.files import read_text, remove, write_atomically, write_new


def test_file_is_replaced_with_the_given_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    before = os.umask(0o077)
    try:
        write_atomically(path, "one")
        write_atomically(path, b"two", mode=0o644)
    finally:
        os.umask(before)
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["a"]


def test_new_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert write_new(path, "one")
    assert not write_new(path, "two")
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["a"]


def test_failure_names_the_file_and_leaves_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "directory"
    path.mkdir()
    with pytest.raises(HostError, match=f'failed to write "{path}": Is a directory'):
        write_atomically(path, "x")
    assert os.listdir(tmp_path) == ["directory"]
    with pytest.raises(HostError, match="No such file or directory"):
        write_atomically(tmp_path / "no" / "where", "x")


@pytest.mark.parametrize("behind_link", [False, True], ids=["pipe", "link to a pipe"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, *, behind_link: bool) -> None:
    path = pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    if behind_link:
        path = tmp_path / "link"
        path.symlink_to(pipe)
    with pytest.raises(HostError, match=f'failed to write "{path}": not a regular file'):
        write_atomically(path, "x")
    assert pipe.is_fifo()
    assert path.is_symlink() is behind_link
    assert not list(tmp_path.glob(".*"))


def test_invalid_utf8_survives(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xff\r\n\n")
    text = read_text(path)
    assert text is not None
    write_atomically(path, text)
    assert path.read_bytes() == b"\xff\r\n\n"


def test_missing_file_has_no_text_and_removal_is_idempotent(tmp_path: Path) -> None:
    assert read_text(tmp_path / "a") is None
    remove(tmp_path / "a")
    with pytest.raises(HostError, match="failed to read"):
        read_text(tmp_path)
    with pytest.raises(HostError, match="failed to remove"):
        remove(tmp_path)
