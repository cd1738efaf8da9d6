# SPDX-License-Identifier: Apache-2.0
"""Files and directories in places that others can write: always new, always ours."""

import os
from pathlib import Path

import pytest

from rdd.client import kubeconfig
from rdd.daemon.support.bundle import Bundle
from rdd.host.directories import make_own_dir, make_private_dir
from rdd.host.files import open_new, write_atomically
from rdd.instance import Instance
from rdd.store.sqlite import schema


def write_bundle(path: Path) -> None:
    bundle = Bundle(Instance("2", path.parent / "home"), version={}, status={}, variables={})
    bundle.write(path)


@pytest.mark.parametrize(
    ("write", "temporary"),
    [
        pytest.param(lambda path: write_atomically(path, "mine"), ".x.{pid}.tmp", id="host"),
        pytest.param(lambda path: kubeconfig.write(path, "mine"), ".x.{pid}", id="kubeconfig"),
        pytest.param(schema.create, ".x.{pid}.new", id="store"),
        pytest.param(write_bundle, ".x.partial", id="support bundle"),
    ],
)
@pytest.mark.parametrize("kind", ["link", "dangling link", "file"])
def test_what_lies_in_the_way_is_not_opened(
    tmp_path: Path, write: object, temporary: str, kind: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("keep")
    trap = tmp_path / temporary.format(pid=os.getpid())
    if kind == "file":
        trap.write_text("foreign")
        trap.chmod(0o666)
        watching = trap.open()  # a stranger keeps the file open
    else:
        trap.symlink_to(victim if kind == "link" else tmp_path / "nowhere")
        watching = victim.open()
    with watching:
        assert callable(write)
        write(tmp_path / "x")
        assert watching.read() in ("keep", "foreign")
    assert victim.read_text() == "keep"
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "x").is_symlink()


def test_new_file_has_its_mode(tmp_path: Path) -> None:
    os.close(open_new(tmp_path / "a", 0o640))
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_own_directories_are_closed_and_chosen_ones_are_not(tmp_path: Path) -> None:
    for name in ("own", "chosen"):
        (tmp_path / name).mkdir(mode=0o755)
    make_own_dir(tmp_path / "own")
    make_private_dir(tmp_path / "chosen")
    make_own_dir(tmp_path / "deep" / "new")
    modes = [(tmp_path / n).stat().st_mode & 0o777 for n in ("own", "chosen", "deep/new")]
    assert modes == [0o700, 0o755, 0o700]
