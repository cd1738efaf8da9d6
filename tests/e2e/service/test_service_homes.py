# SPDX-License-Identifier: Apache-2.0
"""Homes of ordinary users: not writable, and with the directories of the XDG specification.

As root, the commands run as another user who may read everything, also the interpreter, but
write only what is his.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import CompletedProcess, run_program

USER = 65534
READING = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


@pytest.fixture
def place() -> Iterator[Path]:
    """A short directory of an ordinary user."""
    made = Path(tempfile.mkdtemp(prefix="rdd", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(made, USER, USER)
    yield made
    for path in made.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(made)


def as_user(rdd_script: Path, *words: str, home: Path, **variables: str) -> CompletedProcess[str]:
    command = [str(rdd_script), *words]
    if os.geteuid() == 0:
        ids = (f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
        command = ["setpriv", *ids, *READING, *command]
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", **variables}
    return run_program(command, env=environment, cwd=home)


@pytest.mark.parametrize(
    "words",
    ["status", "start", "service start", "service create", "set running=true", "ps", "package key"],
)
def test_home_that_is_not_writable_is_named(rdd_script: Path, place: Path, words: str) -> None:
    home = place / "home"
    home.mkdir(mode=0o555)
    done = as_user(rdd_script, *words.split(), home=home)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert str(home) in done.stderr
    assert "not writable" in done.stderr or "Permission denied" in done.stderr
    assert list(home.iterdir()) == []


def test_ordinary_user_with_xdg_directories(rdd_script: Path, place: Path) -> None:
    home = place / "home"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, USER, USER)
    variables = {
        f"XDG_{name}": str(place / "xdg" / name)
        for name in ("DATA_HOME", "CONFIG_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR")
    }
    try:
        assert as_user(rdd_script, "service", "start", home=home, **variables).returncode == 0
        shown = as_user(rdd_script, "status", home=home, **variables)
        assert shown.stdout.startswith("Control plane  running  rancher-desktop-2")
        # Another shell of the user, without the variables, finds the same instance.
        assert as_user(rdd_script, "status", home=home).stdout == shown.stdout
        directory = home / ".local/share/rancher-desktop-2"
        assert directory.stat().st_mode & 0o077 == 0
        assert not (place / "xdg").exists()
    finally:
        done = as_user(rdd_script, "service", "delete", "--yes", "--no-trash", home=home)
    assert done.returncode == 0, done.stderr
    assert not directory.exists()
