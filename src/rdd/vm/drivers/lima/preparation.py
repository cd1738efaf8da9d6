# SPDX-License-Identifier: Apache-2.0
"""Creation of an instance by limactl.

limactl creates the directory of an instance itself and refuses an existing one. So rdd's
directory moves back to `.NAME.creating`; while that exists, `NAME` counts as incomplete,
whatever its content. When limactl has finished, rdd's files move into the new directory, and
`.NAME.creating` is removed.

limactl may rewrite the template. rdd restores the given text, because a controller restarts
machines whose template differs.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from rdd.host.errors import HostError
from rdd.vm.drivers.lima import limactl
from rdd.vm.instance_dir import (
    LIMA_VERSION,
    LIMA_YAML,
    PREPARING,
    RECORD,
    TEMPLATE_CACHE,
    InstanceDirectory,
)

_OWN_FILES = (RECORD, TEMPLATE_CACHE, LIMA_YAML, PREPARING)
_WORKER = "limactl.pid"  # pid file of limactl, for a daemon after a crash


async def prepare(
    directory: InstanceDirectory,
    *,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Create the instance with limactl. Cancellable. Raises HostError."""
    _move(directory.path, directory.creation_dir)
    try:
        await limactl.run(
            "create",
            f"--name={directory.name}",
            str(directory.creation_dir / LIMA_YAML),
            directory=directory,
            environment=environment,
            progress=progress,
            pid_file=directory.creation_dir / _WORKER,
        )
        await asyncio.to_thread(_complete, directory)
    except BaseException:
        await asyncio.shield(asyncio.to_thread(_undo, directory))
        raise


def _complete(directory: InstanceDirectory) -> None:
    """Move rdd's files into the directory of limactl and mark it as complete."""
    try:
        (directory.creation_dir / LIMA_VERSION).unlink(
            missing_ok=True
        )  # limactl has written its own
        for name in _OWN_FILES:
            (directory.creation_dir / name).replace(directory.path / name)
        directory.creation_dir.rmdir()  # from here on `.preparing` marks it as incomplete
    except OSError as error:
        raise HostError.from_os(f'complete "{directory.path}"', error) from error


def _undo(directory: InstanceDirectory) -> None:
    """Restore one directory with rdd's files, which the failed creation then removes."""
    if directory.creation_dir.exists():
        shutil.rmtree(directory.path, ignore_errors=True)
        _move(directory.creation_dir, directory.path)


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        raise HostError.from_os(f'rename "{source}"', error) from error
