# SPDX-License-Identifier: Apache-2.0
"""Removing directories. The real RootlessKit needs an ordinary user with subordinate ids; a
stand-in shows when it is asked, and for what."""

import os
import shutil
from pathlib import Path

import pytest

from rdd.host.trees import remove_as_mapped_root, remove_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "tree"
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "file").touch()
    return path


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user whose files cannot be removed, and a RootlessKit; the log of its calls."""
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


def test_a_directory_of_our_own_is_removed(tree: Path) -> None:
    remove_tree(tree)
    assert not tree.exists()


def test_files_of_subordinate_ids_are_removed_from_a_user_namespace(
    tree: Path, mapped: Path
) -> None:
    remove_tree(tree)
    assert not tree.exists()
    assert mapped.read_text() == f"rm -rf -- {tree}\n"


def test_without_a_user_namespace_the_error_is_that_of_the_removal(
    tree: Path, mapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(PermissionError):
        remove_tree(tree)


def test_root_has_no_use_for_a_user_namespace(
    tree: Path, mapped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not remove_as_mapped_root(tree)
    assert not mapped.exists()
