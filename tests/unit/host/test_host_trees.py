# SPDX-License-Identifier: Apache-2.0
"""Removal of directories. The real RootlessKit needs an ordinary user with subordinate ids; a
fake records its calls."""

import os
import shutil
from pathlib import Path

import pytest

from rdd.host.tree_removal import remove_as_mapped_root, remove_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "file").touch()
    return path


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate an ordinary user whose files cannot be removed, and RootlessKit; return its log."""
    log = tmp_path / "log"
    program = tmp_path / "bin" / "rootlesskit"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >>{log}\nexec "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def refused(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refused)
    return log


def test_own_directory_is_removed(tree: Path) -> None:
    remove_tree(tree)
    assert not tree.exists()


def test_files_of_subordinate_ids_are_removed_in_a_user_namespace(tree: Path, mapped: Path) -> None:
    remove_tree(tree)
    assert not tree.exists()
    assert mapped.read_text() == f"rm -rf -- {tree}\n"


def test_without_a_user_namespace_the_removal_fails(
    tree: Path, mapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PermissionError):
        remove_tree(tree)


def test_root_uses_no_user_namespace(
    tree: Path, mapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not remove_as_mapped_root(tree)
    assert not mapped.exists()
