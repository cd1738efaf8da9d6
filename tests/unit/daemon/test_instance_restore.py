# SPDX-License-Identifier: Apache-2.0
"""A restore of a whole instance that is interrupted at any step is the old state or the new one."""

import json
from pathlib import Path

import pytest

from rdd.daemon.service import instance_restore
from rdd.daemon.service.lifecycle import complete_restore
from rdd.host.errors import HostError
from rdd.host.trash import Trash
from rdd.instance import PREPARED, Instance


class Crash(BaseException):
    """The process ends here."""


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    """An instance with the machines `a` and `extra`, and the prepared `a` and `b`."""
    found = Instance("t", tmp_path)
    write(found.database.parent, "old")
    prepare(found.database.parent)
    for name in ("a", "extra"):
        write(found.lima_home / name, "old")
    for name in ("a", "b"):
        prepare(found.lima_home / name)
    return found


def write(directory: Path, text: str) -> None:
    directory.mkdir(parents=True)
    (directory / "state.db").write_text(text)
    (directory / "lima.yaml").write_text("{}")


def prepare(path: Path) -> None:
    write(path.with_name(f".{path.name}{PREPARED}"), "new")


def decide(instance: Instance) -> None:
    instance.restore_journal.write_text(json.dumps({"snapshot": "s", "machines": ["a", "b"]}))


def state(instance: Instance) -> dict[str, str]:
    """Return the content of what is at its place, and the names of what is beside it."""
    places = {"db": instance.database.parent}
    for path in instance.lima_home.iterdir():
        places[path.name] = path
    for path in instance.database.parent.parent.glob(".db*"):
        places[path.name] = path
    return {name: (path / "state.db").read_text() for name, path in places.items() if path.exists()}


OLD = {"db": "old", "a": "old", "extra": "old"}
NEW = {"db": "new", "a": "new", "b": "new"}


@pytest.mark.parametrize("step", range(10))
def test_crash_at_any_step_is_completed(
    instance: Instance, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    decide(instance)
    rename, left = Path.rename, step

    def renamed(source: Path, target: Path) -> Path:
        nonlocal left
        if left == 0:
            raise Crash
        left -= 1
        return rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", renamed)
        try:
            instance_restore.complete(instance)
        except Crash:
            assert instance.restore_journal.exists()
    complete_restore(instance)
    assert state(instance) == NEW
    assert not instance.restore_journal.exists()
    kept = [path for path in instance.trash_dirs[0].rglob("state.db") if path.read_text() == "old"]
    assert len(kept) == 3


def test_what_was_replaced_is_one_entry_of_the_trash(instance: Instance) -> None:
    decide(instance)
    complete_restore(instance)
    (entry,) = Trash(instance.trash_dirs).entries()
    assert (entry.kind, entry.items) == ("instance", ("db", "lima/a", "lima/extra"))


def test_without_a_decision_everything_is_as_it_was(instance: Instance) -> None:
    complete_restore(instance)
    assert state(instance) == OLD


def test_damaged_decision_is_reported(instance: Instance) -> None:
    instance.restore_journal.write_text("{")
    with pytest.raises(HostError, match=r'restore\.json" is damaged'):
        complete_restore(instance)
    assert state(instance)["db"] == "old"
