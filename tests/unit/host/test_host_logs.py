# SPDX-License-Identifier: Apache-2.0
"""Rotation of log files."""

from pathlib import Path

import pytest

from rdd.host.errors import HostError
from rdd.host.logs import rotate


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_first_rotation_creates_an_empty_log_in_a_private_directory(tmp_path: Path) -> None:
    log = rotate(tmp_path / "a" / "logs", "rdd.stdout")
    assert log == tmp_path / "a" / "logs" / "rdd.stdout.log"
    assert log.read_text() == ""
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700


def test_current_log_gets_the_number_after_the_highest(tmp_path: Path) -> None:
    (tmp_path / "rdd.stderr.3.log").write_text("old")
    (tmp_path / "rdd.stderr.log").write_text("current")
    rotate(tmp_path, "rdd.stderr")
    assert names(tmp_path) == ["rdd.stderr.3.log", "rdd.stderr.4.log", "rdd.stderr.log"]
    assert (tmp_path / "rdd.stderr.4.log").read_text() == "current"


def test_newest_five_numbered_files_stay(tmp_path: Path) -> None:
    for number in (7, 8, 9, 10, 11, 12):
        (tmp_path / f"rdd.stderr.{number}.log").touch()
    (tmp_path / "rdd.stderr.log").touch()
    rotate(tmp_path, "rdd.stderr")
    kept = {f"rdd.stderr.{number}.log" for number in (9, 10, 11, 12, 13)}
    assert set(names(tmp_path)) == {"rdd.stderr.log", *kept}


def test_keep_all_deletes_nothing(tmp_path: Path) -> None:
    for _ in range(9):
        rotate(tmp_path, "rdd.stderr", keep_all=True)
    assert len(names(tmp_path)) == 9


def test_files_of_other_names_stay(tmp_path: Path) -> None:
    others = ["rdd.stdout.1.log", "rdd.stderr.old.log", "rdd.stderr.01.log", "xrdd.stderr.1.log"]
    for name in others:
        (tmp_path / name).touch()
    for _ in range(8):
        rotate(tmp_path, "rdd.stderr")
    assert set(others) < set(names(tmp_path))


@pytest.mark.parametrize("name", ["serial", "serialp", "serialv"])
def test_without_create_no_new_file_is_created(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.log").touch()
    rotate(tmp_path, name, create=False)
    assert names(tmp_path) == [f"{name}.1.log"]


def test_first_line_is_written_to_the_new_file(tmp_path: Path) -> None:
    assert rotate(tmp_path, "ha.stdout", first_line="=== T ===").read_text() == "=== T ===\n"


def test_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HostError) as caught:
        rotate(tmp_path / "file" / "logs", "rdd.stderr")
    assert str(caught.value) == (
        f'failed to create directory "{tmp_path}/file/logs": "{tmp_path}/file" is not a directory'
    )
    assert names(tmp_path) == ["file"]


def test_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    for number in range(1, 7):
        (tmp_path / f"rdd.stderr.{number}.log").mkdir()  # cannot be removed as a file
    with pytest.raises(HostError, match=r'failed to rotate log file ".*/rdd.stderr.log": Is a dir'):
        rotate(tmp_path, "rdd.stderr")


def test_existing_directory_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    rotate(tmp_path, "rdd.stderr")
    assert tmp_path.stat().st_mode & 0o777 == 0o755
