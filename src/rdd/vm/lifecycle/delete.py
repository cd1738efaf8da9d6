# SPDX-License-Identifier: Apache-2.0
"""Deletion of an instance, and cleanup of interrupted creations and deletions.

A deletion starts with one atomic step: the directory gets a name that no machine can have.
The removal that follows may take long; `sweep` finishes one that a crash interrupted.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from rdd.host.errors import HostError
from rdd.host.processes import Identity
from rdd.host.tree_removal import remove_tree
from rdd.vm.drivers import catalog
from rdd.vm.instance_dir import CREATING, InstanceDirectory, LimaHome
from rdd.vm.lifecycle.kill import kill_all
from rdd.vm.process_files import live_process

_DELETING = ".deleting"  # suffix of a directory that is no instance any more
_PROTECTED = "protected"  # Lima's file that prevents a deletion
_KILL_S = 5.0


async def discard(directory: InstanceDirectory) -> None:
    """Remove an incomplete instance and what its driver created. Raises HostError."""
    if not directory.exists() and not directory.creation_dir.exists():
        return
    with contextlib.suppress(HostError):  # a crash truncated the record
        if directory.driver in catalog.DRIVERS:
            await catalog.provider(directory.driver).cleanup(directory)
    await remove_directory(directory)


async def remove_directory(
    directory: InstanceDirectory, *, keep: Callable[[InstanceDirectory], bool] | None = None
) -> None:
    """Remove an instance without running processes. Raises HostError.

    `keep` moves a complete instance elsewhere, or returns False: then it is removed, too.
    """
    if (directory.path / _PROTECTED).exists():
        raise HostError(
            f'machine "{directory.name}" is protected; remove "{directory.path / _PROTECTED}" first'
        )
    if directory.creation_dir.exists():
        await _kill_workers(directory.creation_dir)
    if keep is not None and directory.exists() and not directory.is_incomplete():
        await asyncio.to_thread(keep, directory)
    await asyncio.to_thread(_remove, directory.path, _deletion_dir(directory))
    if directory.creation_dir.exists():  # last: it marks the instance as incomplete
        await asyncio.to_thread(_remove_tree, directory.creation_dir)


async def _kill_workers(path: Path) -> None:
    """Kill the programs of a creation whose daemon has crashed."""
    if problems := await kill_all(_workers(path), timeout_s=_KILL_S):
        raise HostError("; ".join(problems))


def _workers(path: Path) -> list[Identity | None]:
    return [live_process(file, file.with_suffix(".identity")) for file in path.glob("*.pid")]


def _deletion_dir(directory: InstanceDirectory) -> Path:
    return directory.path.with_name(f".{directory.name}{_DELETING}")


def _remove_tree(path: Path) -> None:
    try:
        remove_tree(path)
    except OSError as error:
        raise HostError.from_os(f'remove "{error.filename or path}"', error) from error


def _remove(path: Path, target: Path) -> None:
    try:
        if target.exists():  # left by an interrupted deletion
            remove_tree(target)
        if path.exists():
            path.rename(target)
            remove_tree(target)
    except OSError as error:
        raise HostError.from_os(f'remove "{error.filename or path}"', error) from error


def unfinished(home: LimaHome) -> list[str]:
    """Return the machines with a creation or deletion that runs or was interrupted."""
    found = set()
    with contextlib.suppress(OSError):
        for suffix in (CREATING, _DELETING):
            found |= {path.name[1 : -len(suffix)] for path in home.path.glob(f".*{suffix}")}
    return sorted(found)


async def sweep(directory: InstanceDirectory) -> None:
    """Remove the remains of an interrupted creation or deletion. Raises HostError."""
    if directory.creation_dir.exists():
        await discard(directory)
    if _deletion_dir(directory).exists():
        await asyncio.to_thread(_remove_tree, _deletion_dir(directory))


def keep_logs(directory: InstanceDirectory, target: Path) -> None:
    """Move the logs of an instance to `<target>/<name>`; if that exists, to `<name>.1` etc.

    Raises HostError.
    """
    logs = sorted(directory.path.glob("*.log"))
    if not logs:
        return
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        log_dir = _make_unused_directory(target, directory.name)
        for log in logs:
            shutil.move(log, log_dir / log.name)
    except OSError as error:
        raise HostError.from_os(f'keep the logs of "{directory.name}" in "{target}"', error) from (
            error
        )


def _make_unused_directory(target: Path, name: str) -> Path:
    path, number = target / name, 0
    while True:
        try:
            path.mkdir(mode=0o700)
            return path
        except FileExistsError:
            number += 1
            path = target / f"{name}.{number}"
