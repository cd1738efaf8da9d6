# SPDX-License-Identifier: Apache-2.0
"""Tools are published to `bin`, repaired, and never replace files of the user."""

import json
import logging
import os
from pathlib import Path

import pytest

from rdd.daemon.service.publish import MANIFEST, Publisher


@pytest.fixture
def rdd(tmp_path: Path) -> Path:
    path = tmp_path / "app" / "rdd"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "short" / "bin"


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_standalone_publishes_two_links_to_itself(rdd: Path, target: Path) -> None:
    for _ in range(2):
        Publisher(target, rdd).publish()
        assert names(target) == ["kubectl", "rdd"]
        assert {(target / name).readlink() for name in names(target)} == {rdd}


def test_dangling_links_are_repaired_and_foreign_files_stay(rdd: Path, target: Path) -> None:
    target.mkdir(parents=True)
    (target / "rdd").symlink_to("/gone/rdd")
    (target / "other").symlink_to("/gone/other")
    (target / "kubectl").write_text("mine")
    Publisher(target, rdd).publish()
    assert names(target) == ["kubectl", "rdd"]
    assert (target / "rdd").readlink() == rdd
    assert (target / "kubectl").read_text() == "mine"


def test_working_link_to_another_binary_stays(rdd: Path, target: Path, tmp_path: Path) -> None:
    other = tmp_path / "other-rdd"
    other.touch()
    target.mkdir(parents=True)
    (target / "rdd").symlink_to(other)
    Publisher(target, rdd).publish()
    assert (target / "rdd").readlink() == other


def test_hard_links_are_recorded_and_renewed_when_the_original_changes(
    rdd: Path, target: Path
) -> None:
    publisher = Publisher(target, rdd, use_symlinks=False)
    publisher.publish()
    assert (target / "rdd").samefile(rdd)
    assert set(json.loads((target / MANIFEST).read_text())) == {"rdd", "kubectl"}
    rdd.unlink()
    rdd.write_text("#!/bin/sh\n# a newer version\n")
    publisher.publish()
    assert (target / "rdd").samefile(rdd)
    assert (target / "kubectl").samefile(rdd)


def test_hard_links_of_an_uninstalled_app_are_replaced(
    rdd: Path, target: Path, tmp_path: Path
) -> None:
    Publisher(target, rdd, use_symlinks=False).publish()
    rdd.unlink()
    other = tmp_path / "rdd"
    other.write_text("new home")
    Publisher(target, other).publish()
    assert (target / "rdd").readlink() == other


def test_file_of_the_user_in_place_of_a_hard_link_stays(rdd: Path, target: Path) -> None:
    publisher = Publisher(target, rdd, use_symlinks=False)
    publisher.publish()
    (target / "rdd").unlink()
    (target / "rdd").write_text("the user's own")
    rdd.write_text("changed")
    publisher.publish()
    assert (target / "rdd").read_text() == "the user's own"


def test_other_disk_gets_copies(rdd: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    Publisher(target, rdd, use_symlinks=False).publish()
    assert (target / "rdd").read_text() == rdd.read_text()
    assert os.access(target / "rdd", os.X_OK)
    assert "rdd" in json.loads((target / MANIFEST).read_text())


def test_app_bundle_publishes_all_its_programs(tmp_path: Path, target: Path) -> None:
    programs = tmp_path / "App" / "resources" / "linux" / "bin"
    programs.mkdir(parents=True)
    for name in ("rdd", "docker", "nerdctl"):
        (programs / name).touch()
    (programs / "folder").mkdir()
    target.mkdir(parents=True)
    (target / "stale").touch()
    Publisher(target, programs / "rdd").publish()
    assert names(target) == ["docker", "kubectl", "nerdctl", "rdd"]
    assert (target / "kubectl").readlink() == programs / "rdd"
    assert target.stat().st_mode & 0o777 == 0o755


def test_failures_are_logged_and_not_raised(
    rdd: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        Publisher(tmp_path / "file" / "bin", rdd).publish()
    assert "tools were not published" in caplog.text


def test_program_without_an_executable_publishes_nothing(tmp_path: Path, target: Path) -> None:
    Publisher(target, tmp_path / "missing").publish()
    assert not target.exists()
