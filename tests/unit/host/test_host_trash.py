# SPDX-License-Identifier: Apache-2.0
"""The trash: entries, expiry, lack of space, crashes between two renames."""

import json
import os
import time
from pathlib import Path

import pytest

from rdd.host import trash as module
from rdd.host.errors import HostError
from rdd.host.trash import KEEP_S, Trash, TrashEntry


@pytest.fixture
def trash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trash:
    monkeypatch.setattr(module, "is_space_short", lambda path: False)
    return Trash((tmp_path / "share" / "trash", tmp_path / ".trash"))


def machine(tmp_path: Path, name: str = "rd") -> Path:
    path = tmp_path / "lima" / name
    (path / "k3s" / "server").mkdir(parents=True)
    (path / "k3s" / "server" / "token").write_text("secret")
    (path / "disk").write_text("data")
    return path


def add(trash: Trash, path: Path, *without: str) -> TrashEntry:
    entry = trash.add(
        {f"lima/{path.name}": path},
        instance="2",
        kind="machine",
        name=path.name,
        without=without,
        details={"driver": "host"},
    )
    assert entry is not None
    return entry


def test_details_are_added_to_an_entry(trash: Trash, tmp_path: Path) -> None:
    entry = add(trash, machine(tmp_path))
    trash.describe(entry, {"settings": "{}"})
    (found,) = trash.entries()
    assert found.details == {"driver": "host", "settings": "{}"}
    assert found.items == entry.items
    for damaged in ("", "[]", "{"):
        (entry.path / "entry.json").write_text(damaged)
        with pytest.raises(HostError, match=r"entry.json.* is damaged"):
            trash.describe(entry, {})


def test_entry_of_details_alone(trash: Trash, tmp_path: Path) -> None:
    details = {"settings": "{}"}
    entry = trash.add({}, instance="2", kind="settings", name="app", details=details)
    assert entry is not None
    assert (entry.items, entry.details) == ((), details)
    assert trash.entries() == [entry]
    assert trash.add({}, instance="2", kind="settings", name="app") is None
    gone = {"lima/rd": tmp_path / "lima" / "rd"}
    assert trash.add(gone, instance="2", kind="machine", name="rd", details=details) is None
    trash.remove(entry)
    assert trash.entries() == []


def test_directory_is_kept_privately_and_without_secrets(trash: Trash, tmp_path: Path) -> None:
    path = machine(tmp_path)
    inode = path.stat().st_ino
    entry = add(trash, path, "lima/rd/k3s/server", "lima/rd/missing")
    assert not path.exists()
    kept = entry.path / "lima" / "rd"
    assert kept.stat().st_ino == inode  # renamed, not copied
    assert (kept / "disk").read_text() == "data"
    assert not (kept / "k3s" / "server").exists()
    for private in (entry.path, entry.path.parent):
        assert private.stat().st_mode & 0o777 == 0o700
    assert trash.entries() == [entry]
    assert (entry.instance, entry.kind, entry.name) == ("2", "machine", "rd")
    assert dict(entry.details) == {"driver": "host"}


def test_entry_is_taken_back_and_nothing_is_left(trash: Trash, tmp_path: Path) -> None:
    path = machine(tmp_path)
    entry = add(trash, path)
    trash.take(entry, {"lima/rd": path})
    assert (path / "disk").read_text() == "data"
    assert trash.entries() == []
    assert not (tmp_path / "share" / "trash").exists()


def test_existing_target_is_never_replaced(trash: Trash, tmp_path: Path) -> None:
    first, second = machine(tmp_path, "a"), machine(tmp_path, "b")
    entry = trash.add({"lima/a": first, "lima/b": second}, instance="2", kind="instance", name="2")
    assert entry is not None
    second.mkdir(parents=True)
    with pytest.raises(HostError, match="exists"):
        trash.take(entry, {"lima/a": first, "lima/b": second})
    assert not first.exists()  # moved back
    assert trash.entries() == [entry]
    assert (entry.path / "lima" / "a" / "disk").exists()


def test_entries_of_one_second_have_different_ids(trash: Trash, tmp_path: Path) -> None:
    ids = {add(trash, machine(tmp_path)).id for _ in range(5)}
    assert len(ids) == 5


def test_missing_directories_make_no_entry(trash: Trash, tmp_path: Path) -> None:
    assert trash.add({"db": tmp_path / "no"}, instance="2", kind="instance", name="2") is None
    assert not (tmp_path / "share").exists()


def test_old_entries_are_purged(
    trash: Trash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = add(trash, machine(tmp_path))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + KEEP_S - 60)
    new = add(trash, machine(tmp_path))
    assert trash.purge() == []
    monkeypatch.setattr(time, "time", lambda: now + KEEP_S + 60)
    assert trash.purge() == [old]
    assert trash.entries() == [new]


def test_oldest_entries_go_while_space_is_short(
    trash: Trash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = []
    for number in range(3):
        entries.append(add(trash, machine(tmp_path)))
        data = json.loads((entries[-1].path / "entry.json").read_text())
        data["deletedAt"] = time.time() - 100 + number
        (entries[-1].path / "entry.json").write_text(json.dumps(data))
    answers = iter([True, True, False])
    monkeypatch.setattr(module, "is_space_short", lambda path: next(answers))
    assert [entry.id for entry in trash.purge()] == [entries[0].id, entries[1].id]
    assert [entry.id for entry in trash.entries()] == [entries[2].id]


@pytest.mark.parametrize("step", ["described", "moved"])
def test_interrupted_addition_is_completed_or_removed(
    trash: Trash, tmp_path: Path, step: str
) -> None:
    path = machine(tmp_path)
    entry = add(trash, path, "lima/rd/k3s/server")
    partial = entry.path.with_name(f".adding-{entry.id}")
    entry.path.rename(partial)
    if step == "described":
        (partial / "lima" / "rd").rename(path)
        (partial / "lima").rmdir()
    else:
        (partial / "lima" / "rd" / "k3s" / "server").mkdir()
    assert trash.entries() == []
    trash.sweep()
    assert partial.exists()  # another process may still fill it
    os.utime(partial, (0, 0))
    trash.sweep()
    assert [found.id for found in trash.entries()] == ([entry.id] if step == "moved" else [])
    if step == "moved":
        assert not (entry.path / "lima" / "rd" / "k3s" / "server").exists()


def test_interrupted_removal_is_completed(trash: Trash, tmp_path: Path) -> None:
    entry = add(trash, machine(tmp_path))
    entry.path.rename(entry.path.with_name(f".removing-{entry.id}"))
    assert trash.entries() == []
    trash.purge()
    assert not (tmp_path / "share" / "trash").exists()


def test_foreign_and_damaged_directories_are_ignored(trash: Trash, tmp_path: Path) -> None:
    entry = add(trash, machine(tmp_path))
    (entry.path.parent / "mine").mkdir()
    damaged = entry.path.parent / "damaged"
    damaged.mkdir()
    (damaged / "entry.json").write_text('{"instance": 2')
    assert trash.entries() == [entry]
    assert trash.purge() == []
    assert damaged.exists()


def test_failed_move_leaves_everything_in_place(
    trash: Trash, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = machine(tmp_path, "a"), machine(tmp_path, "b")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self == second:
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(HostError, match="Permission denied"):
        trash.add({"lima/a": first, "lima/b": second}, instance="2", kind="instance", name="2")
    assert first.exists()
    assert second.exists()
    assert trash.entries() == []
