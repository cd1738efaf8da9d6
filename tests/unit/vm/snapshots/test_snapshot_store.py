# SPDX-License-Identifier: Apache-2.0
"""The snapshots of an instance on disk: complete or not there."""

from pathlib import Path

import pytest
from tests.unit.vm.snapshots.test_snapshot_copies import manifest

from rdd.host.errors import HostError
from rdd.vm.snapshots.store import SnapshotExists, SnapshotStore


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore([tmp_path / "rdd-snapshots" / "2", tmp_path / "other" / "2"])


def test_snapshot_exists_once_it_is_complete(store: SnapshotStore, tmp_path: Path) -> None:
    partial = store.begin("one", tmp_path)
    assert partial.parent.stat().st_mode & 0o777 == 0o700
    assert (store.entries(), store.find("one")) == ([], None)
    stored = store.complete(partial, manifest())
    assert [entry.name for entry in store.entries()] == ["one"]
    assert store.find("one") == stored
    with pytest.raises(SnapshotExists, match='a snapshot "one" already'):
        store.begin("one", tmp_path)
    store.remove("one")
    store.remove("one")
    assert list(tmp_path.iterdir()) == []


def test_interrupted_creation_is_replaced_and_removal_completed(
    store: SnapshotStore, tmp_path: Path
) -> None:
    left = store.begin("one", tmp_path)
    (left / "half").touch()
    assert list(store.begin("one", tmp_path).iterdir()) == []
    removing = left.with_name(".removing-two")
    removing.mkdir()
    store.sweep()
    assert not removing.exists()
    assert left.exists()


def test_foreign_and_newer_content_is_kept(store: SnapshotStore, tmp_path: Path) -> None:
    store.complete(store.begin("one", tmp_path), manifest(format=2))
    root = tmp_path / "rdd-snapshots" / "2"
    (root / "foreign").mkdir()
    assert store.entries() == []
    with pytest.raises(HostError, match="newer rdd"):
        store.find("one")
    with pytest.raises(HostError, match="no manifest"):
        store.find("foreign")


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "Upper", "a" * 64, "-a", "a-"])
def test_invalid_name_is_refused(store: SnapshotStore, name: str) -> None:
    with pytest.raises(HostError, match="invalid name"):
        store.find(name)
