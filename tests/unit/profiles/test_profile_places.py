# SPDX-License-Identifier: Apache-2.0
"""Which file applies, and which files count."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.profiles.profile_files import places

from rdd.instance import Instance
from rdd.profiles import current, reading
from rdd.profiles.current import CurrentProfile
from rdd.profiles.places import Places
from rdd.profiles.reading import MAX_BYTES, Unreadable, find
from rdd.profiles.rules import BrokenProfile, Profile

Found = Places


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    return places(tmp_path, monkeypatch, suffix="work")


def test_system_directory_is_fixed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "RDD_CONFIG_DIR", "RDD_PROFILE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    found = Places.of(Instance("a", Path("/h")))
    assert [str(place.directory / place.stem) for place in found] == [
        "/etc/rancher-desktop/rancher-desktop-a",
        "/etc/rancher-desktop/rancher-desktop-2",
        "/h/.config/rancher-desktop/rancher-desktop-a",
    ]


def test_first_place_with_a_file_decides(found: Places) -> None:
    assert find(found) is None
    in_order = [path for place in found for path in place.paths() if path.suffix == ".yaml"]
    for path in reversed(in_order):
        path.write_text(path.name)
        present = find(found)
        assert present is not None
        assert present.path == path
        assert present.is_system == (path.parent == found.system_dir)


def test_default_instance_has_one_system_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list(places(tmp_path, monkeypatch))) == 2


def _link(path: Path) -> None:
    path.with_name("target").write_text("")
    path.symlink_to("target")


def _mode(path: Path, mode: int) -> None:
    path.write_text("")
    path.chmod(mode)


def _directory_mode(path: Path) -> None:
    path.parent.chmod(0o777)


def _directory_is_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("")


def _directory_is_a_link(path: Path) -> None:
    path.parent.rename(path.parent.with_name("real"))
    path.parent.symlink_to("real")


def _both(path: Path) -> None:
    path.write_text("")
    path.with_suffix(".json").write_text("{}")


@pytest.mark.parametrize(
    ("arrange", "reason"),
    [
        pytest.param(Path.mkdir, "is a directory", id="directory"),
        pytest.param(_link, "is a link", id="link"),
        pytest.param(lambda path: path.symlink_to("nowhere"), "is a link", id="dangling link"),
        pytest.param(os.mkfifo, "is not a regular file", id="pipe"),
        pytest.param(lambda path: _mode(path, 0o664), "writable by others", id="group"),
        pytest.param(lambda path: _mode(path, 0o646), "writable by others", id="others"),
        pytest.param(
            lambda path: path.write_bytes(b" " * (MAX_BYTES + 1)), "larger than 128 KiB", id="huge"
        ),
        pytest.param(_directory_mode, "writable by others", id="directory mode"),
        pytest.param(_directory_is_a_file, "is not a directory", id="directory is a file"),
        pytest.param(_directory_is_a_link, "is not a directory", id="directory is a link"),
        pytest.param(_both, "both exist", id="two extensions"),
    ],
)
def test_unusable_system_file_is_an_error(
    found: Places, arrange: Callable[[Path], None], reason: str
) -> None:
    (found.user_dir / "rancher-desktop-work.yaml").write_text("")
    arrange(found.system_dir / "rancher-desktop-work.yaml")
    with pytest.raises(Unreadable, match=reason) as caught:
        find(found)
    assert caught.value.is_system
    rules = CurrentProfile(found).rules()
    assert isinstance(rules, BrokenProfile)
    assert str(rules.path) in rules.app_problem({})


def test_file_of_another_user_is_an_error(found: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    (found.system_dir / "rancher-desktop-2.yaml").write_text("")
    monkeypatch.setattr(reading, "_ROOT", os.getuid() + 1)
    with pytest.raises(Unreadable, match=r"belongs to the user \d+, not to root"):
        find(found)


def test_unreadable_file_is_an_error(found: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    (found.system_dir / "rancher-desktop-2.yaml").write_text("")

    def refuse(path: object, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root may read every file
    with pytest.raises(Unreadable, match="cannot be read: permission denied"):
        find(found)


def test_user_may_link_the_own_file(found: Places) -> None:
    _link(found.user_dir / "rancher-desktop-work.yaml")
    present = find(found)
    assert present is not None
    assert not present.is_system
    # A file in the place of the user's directory is none of a profile.
    os.remove(present.path)
    os.remove(found.user_dir / "target")
    found.user_dir.rmdir()
    found.user_dir.write_text("")
    assert find(found) is None


def test_change_applies_to_the_next_question(found: Places) -> None:
    profile = CurrentProfile(found)
    assert profile.rules() is None
    path = found.system_dir / "rancher-desktop-2.yaml"
    path.write_text("app: {locked: {kubernetes: {enabled: false}}}")
    first = profile.rules()
    assert isinstance(first, Profile)
    assert profile.rules() is first
    replacement = path.with_name("new")
    replacement.write_text("app: {locked: {kubernetes: {enabled: 1}}}")
    replacement.rename(path)
    assert isinstance(profile.rules(), BrokenProfile)
    path.unlink()
    assert profile.rules() is None


def test_changed_target_of_a_link_applies(found: Places) -> None:
    path = found.user_dir / "rancher-desktop-work.yaml"
    _link(path)
    profile = CurrentProfile(found)
    assert isinstance(profile.rules(), Profile)
    (found.user_dir / "target").write_text("x: 1")
    assert isinstance(profile.rules(), BrokenProfile)


def test_without_directories_a_question_is_two_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    lstat = os.lstat

    def counted(path: Path) -> os.stat_result:
        calls.append(path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", counted)
    profile = CurrentProfile(Places("work", tmp_path / "etc", tmp_path / "user"))
    assert profile.rules() is None
    assert calls == [tmp_path / "etc", tmp_path / "user"]


async def test_watching_sees_directories_that_appear(tmp_path: Path) -> None:
    import asyncio

    found = Places("work", tmp_path / "a" / "b", tmp_path / "c")
    changed = asyncio.Event()
    with current.watching(found, changed.set):
        found.system_dir.mkdir(parents=True)
        (tmp_path / "c").mkdir()
        await asyncio.wait_for(changed.wait(), 60)
        for path in (
            found.system_dir / "rancher-desktop-2.yaml",
            found.user_dir / "rancher-desktop-work.yaml",
        ):
            changed.clear()
            path.write_text("")
            await asyncio.wait_for(changed.wait(), 60)
        assert stat.S_ISREG(path.stat().st_mode)
