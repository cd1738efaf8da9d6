# SPDX-License-Identifier: Apache-2.0
"""The directory of an instance is removed or renamed under its running daemon."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World

from rdd.daemon.service import instance_lock
from rdd.host.locks import FileLock
from rdd.host.processes import identity


def recreate(path: Path) -> None:
    shutil.rmtree(path)
    path.mkdir()


def rename_parent(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def rename_local(path: Path) -> None:
    path.parents[1].rename(path.parents[1].with_name("elsewhere"))


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(shutil.rmtree, id="removed"),
        pytest.param(lambda path: path.rename(path.with_name("elsewhere")), id="renamed"),
        pytest.param(recreate, id="recreated"),
        pytest.param(lambda path: shutil.rmtree(path.parents[1]), id="removed with .local"),
        pytest.param(rename_parent, id="parent renamed"),
        pytest.param(rename_local, id="parent of the parent renamed"),
    ],
)
def test_daemon_without_its_directory_ends_and_leaves_one_daemon(
    world: World, lose: Callable[[Path], None]
) -> None:
    world.variables["RDD_LOG_DIR"] = str(world.home / "logs")
    world.rdd("svc", "start")
    pid = world.pid()
    agents = world.instance.lima_home
    agents.mkdir(parents=True, exist_ok=True)
    lose(world.instance.dir)
    world.until(lambda: identity(pid) is None)
    log = (world.home / "logs" / "rdd.stderr.log").read_text()
    assert "was removed or renamed; the control plane ends, its machines run on" in log
    assert "Traceback" not in log
    assert agents.is_dir()
    world.rdd("svc", "start")
    world.write_first()
    assert world.pid() != pid


def test_other_removals_do_not_end_the_daemon(world: World) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    for directory in (world.instance.dir, world.instance.dir.parent, world.home):
        (directory / "other").mkdir()
        (directory / "other").rename(directory / "another")
        (directory / "another").rmdir()
    world.write_first()
    assert world.pid() == pid


def test_no_second_daemon_while_one_without_a_directory_runs(world: World) -> None:
    world.rdd("svc", "start")
    pid = world.pid()
    os.kill(pid, signal.SIGSTOP)
    shutil.rmtree(world.instance.dir)
    done = world.try_rdd("svc", "start", "--timeout=1s")
    assert done.code != 0
    assert not world.instance.args_file.exists()
    os.kill(pid, signal.SIGCONT)
    world.until(lambda: identity(pid) is None)
    world.rdd("svc", "start")


def test_lock_is_outside_of_the_directories_of_the_instance(world: World) -> None:
    world.rdd("svc", "start")
    instance = world.instance
    lock = instance.lock_file
    assert lock.stat().st_mode & 0o777 == 0o600
    assert lock.parent.stat().st_mode & 0o777 == 0o700
    for directory in (instance.dir, instance.short_dir, instance.log_dir):
        assert directory not in lock.parents
    world.rdd("svc", "delete")
    assert not lock.parent.exists()


def test_lock_of_an_older_daemon_counts(world: World) -> None:
    instance = world.instance
    instance.dir.mkdir(parents=True)
    held = FileLock.try_acquire(instance.old_lock_file)
    assert held is not None
    with held:
        assert instance_lock.try_acquire(instance) is None
    lock = instance_lock.try_acquire(instance)
    assert lock is not None
    lock.release()
    assert not instance.old_lock_file.exists()


def test_open_lock_directory_is_closed(world: World) -> None:
    directory = world.instance.lock_file.parent
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    world.rdd("svc", "create")
    world.rdd("svc", "start")
    assert directory.stat().st_mode & 0o777 == 0o700
