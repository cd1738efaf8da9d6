# SPDX-License-Identifier: Apache-2.0
"""Making an instance, and taking one away.

An instance that is not complete can be told apart at every moment: its directory appears with
a `.preparing` file in it, and the last step takes that away. Nothing of an attempt that failed or
was cancelled stays, and what a crash left is removed by the next attempt.

Taking away begins with one act too: the directory gets a name that no machine can have. What
follows may take its time, and what a crash leaves of it is swept later.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import remove, write_atomically
from rdd.host.processes import Identity
from rdd.host.trees import remove_tree
from rdd.vm.drivers import catalog
from rdd.vm.drivers.selection import driver_for, has_own_image
from rdd.vm.errors import MachineExists
from rdd.vm.instance_dir import (
    CREATING,
    LAYOUT_VERSION,
    LIMA_VERSION,
    InstanceDirectory,
    InstanceRecord,
    InstanceStatus,
    LimaHome,
)
from rdd.vm.lifecycle.kill import kill_all
from rdd.vm.process_files import live_process
from rdd.vm.template import HostFacts, Template, check, parse, resolved

# Ends the names of directories that are not instances any more.
_DELETING = ".deleting"
_PROTECTED = "protected"  # Lima's file against deletion
_KILL_S = 5.0


async def create(
    home: LimaHome,
    name: str,
    text: str,
    *,
    facts: HostFacts,
    environment: Mapping[str, str],
    version: str,
    progress: Callable[[str], None],
    fill: Callable[[InstanceDirectory], Awaitable[None]] | None = None,
    driver: str = "",
) -> None:
    """Make an instance from a template, for the driver that is given, if one is.

    `fill` makes its disk instead of the driver.

    Cancellable. Raises InvalidName, TemplateError, MachineExists, HostError; then nothing of
    the attempt is left.
    """
    directory = home.directory(name)
    template = parse(text)
    # Programs are asked, and some answer slowly.
    driver = await asyncio.to_thread(driver_for, template, environment, driver=driver)
    directory.check_socket_paths(driver)
    check(template, driver=driver, has_image=has_own_image(environment))
    final = resolved(template, facts, name=name, directory=directory.path, driver=driver)
    _check_forwarded_sockets(final)
    if directory.status() is InstanceStatus.UNINITIALIZED:
        await discard(directory)
    _begin(home, directory)
    try:
        await asyncio.to_thread(_write, directory, text, InstanceRecord(driver, version), facts)
        if fill is not None:
            await fill(directory)
        else:
            await catalog.provider(driver).prepare(
                directory, final, environment=environment, progress=progress
            )
        remove(directory.preparing)
    except BaseException:
        await asyncio.shield(discard(directory))
        raise


def _begin(home: LimaHome, directory: InstanceDirectory) -> None:
    """Make the directory, which is marked as incomplete from its first moment on."""
    if directory.exists():
        raise MachineExists(f'machine "{directory.name}" already exists')
    make_private_dir(home.path)
    new = directory.creation_dir
    try:
        if new.exists():  # a crash, in the middle of the next lines
            shutil.rmtree(new)
        new.mkdir(mode=0o700)
        (new / directory.preparing.name).touch(mode=0o600)
        new.rename(directory.path)
    except OSError as error:
        raise HostError.from_os(f'create directory "{directory.path}"', error) from error


def _write(
    directory: InstanceDirectory, text: str, record: InstanceRecord, facts: HostFacts
) -> None:
    directory.write_record(record)
    write_atomically(directory.path / LIMA_VERSION, f"{LAYOUT_VERSION}\n", mode=0o644)
    write_atomically(directory.lima_yaml, text, mode=0o644)
    directory.refresh_template(facts)


def _check_forwarded_sockets(template: Template) -> None:
    from rdd.vm.instance_dir import check_socket_path

    for rule in template.port_forwards:
        if rule.host_socket:
            check_socket_path(Path(rule.host_socket))


async def discard(directory: InstanceDirectory) -> None:
    """Remove an instance that is not complete, with what its driver made. Raises HostError."""
    if not directory.exists() and not directory.creation_dir.exists():
        return
    with contextlib.suppress(HostError):  # a record that a crash cut short
        if directory.driver in catalog.DRIVERS:
            await catalog.provider(directory.driver).cleanup(directory)
    await remove_directory(directory)


async def remove_directory(directory: InstanceDirectory) -> None:
    """Remove an instance of which nothing runs. Raises HostError."""
    if (directory.path / _PROTECTED).exists():
        raise HostError(
            f'machine "{directory.name}" is protected; remove "{directory.path / _PROTECTED}" first'
        )
    if directory.creation_dir.exists():
        await _end_workers(directory.creation_dir)
    await asyncio.to_thread(_remove, directory.path, _gone(directory))
    if directory.creation_dir.exists():  # last: it tells that there is no complete instance
        await asyncio.to_thread(_remove_tree, directory.creation_dir)


async def _end_workers(path: Path) -> None:
    """End programs that are at work for a creation whose daemon has crashed."""
    if problems := await kill_all(_workers(path), timeout_s=_KILL_S):
        raise HostError("; ".join(problems))


def _workers(path: Path) -> list[Identity | None]:
    return [live_process(file, file.with_suffix(".identity")) for file in path.glob("*.pid")]


def _gone(directory: InstanceDirectory) -> Path:
    """Where a deletion moves an instance."""
    return directory.path.with_name(f".{directory.name}{_DELETING}")


def _remove_tree(path: Path) -> None:
    try:
        remove_tree(path)
    except OSError as error:
        raise HostError.from_os(f'remove "{error.filename or path}"', error) from error


def _remove(path: Path, target: Path) -> None:
    try:
        if target.exists():  # of a deletion that a crash interrupted
            remove_tree(target)
        if path.exists():
            path.rename(target)
            remove_tree(target)
    except OSError as error:
        where = error.filename or path
        raise HostError.from_os(f'remove "{where}"', error) from error


def unfinished(home: LimaHome) -> list[str]:
    """The machines whose creation or deletion a crash has interrupted, or is under way."""
    found = set()
    with contextlib.suppress(OSError):
        for suffix in (CREATING, _DELETING):
            found |= {path.name[1 : -len(suffix)] for path in home.path.glob(f".*{suffix}")}
    return sorted(found)


async def sweep(directory: InstanceDirectory) -> None:
    """Remove what a crash left of a creation or deletion. Raises HostError."""
    if directory.creation_dir.exists():
        await discard(directory)
    if _gone(directory).exists():
        await asyncio.to_thread(_remove_tree, _gone(directory))


def keep_logs(directory: InstanceDirectory, target: Path) -> None:
    """Move the logs of an instance to `<target>/<name>`, or `<name>.1` and so on if that exists.

    Raises HostError.
    """
    logs = sorted(directory.path.glob("*.log"))
    if not logs:
        return
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = _free_directory(target, directory.name)
        for log in logs:
            shutil.move(log, place / log.name)
    except OSError as error:
        raise HostError.from_os(f'keep the logs of "{directory.name}" in "{target}"', error) from (
            error
        )


def _free_directory(target: Path, name: str) -> Path:
    place, number = target / name, 0
    while True:
        try:
            place.mkdir(mode=0o700)
            return place
        except FileExistsError:
            number += 1
            place = target / f"{name}.{number}"
