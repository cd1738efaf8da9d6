# SPDX-License-Identifier: Apache-2.0
"""Creation by limactl, of an instance that we have creation_dir already.

limactl makes the directory of an instance itself and refuses one that is there. So ours goes back
to where it began (`.NAME.creating`); as long as that exists, `NAME` is no complete instance,
whatever is in it. When limactl has finished, our files follow, and the place where it began goes.

limactl may write the template in its own way; the text that was given takes its place, since
machines are restarted when that differs.
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

_OURS = (RECORD, TEMPLATE_CACHE, LIMA_YAML, PREPARING)
_WORKER = "limactl.pid"  # of the limactl that is at work, for a daemon after a crash


async def prepare(
    directory: InstanceDirectory,
    *,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Have limactl make the instance. Cancellable. Raises HostError."""
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
    """Put our files into what limactl has made, and say that it is complete."""
    try:
        (directory.creation_dir / LIMA_VERSION).unlink(missing_ok=True)  # limactl has told its own
        for name in _OURS:
            (directory.creation_dir / name).replace(directory.path / name)
        directory.creation_dir.rmdir()  # from here on `.preparing` marks it as incomplete
    except OSError as error:
        raise HostError.from_os(f'complete "{directory.path}"', error) from error


def _undo(directory: InstanceDirectory) -> None:
    """Whatever happened: one directory, with our files in it, for the creation to remove."""
    if directory.creation_dir.exists():
        shutil.rmtree(directory.path, ignore_errors=True)
        _move(directory.creation_dir, directory.path)


def _move(source: Path, target: Path) -> None:
    try:
        source.rename(target)
    except OSError as error:
        raise HostError.from_os(f'rename "{source}"', error) from error
