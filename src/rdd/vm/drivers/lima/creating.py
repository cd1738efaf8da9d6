# SPDX-License-Identifier: Apache-2.0
"""Creation by limactl, in a directory that we have begun already.

limactl wants to make the directory itself. So ours steps aside for a moment: it is renamed,
and as soon as limactl's appears, what marks an instance as ours and as not complete yet is put
into it. A crash in between leaves a directory that cannot be a machine's name, which the next
attempt removes, or one that is marked as incomplete.
"""

import asyncio
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from rdd.host.errors import HostError
from rdd.vm.drivers.lima import limactl
from rdd.vm.instances import PREPARING, RECORD, TEMPLATE_CACHE, InstanceDirectory

_POLL_S = 0.01
_OURS = (PREPARING, RECORD, TEMPLATE_CACHE)


async def create(
    directory: InstanceDirectory,
    *,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Have limactl make the instance. Cancellable. Raises HostError."""
    aside = directory.path.with_name(f".{directory.name}.creating")
    _step_aside(directory.path, aside)

    def tell(line: str) -> None:
        if directory.path.exists():
            _copy(directory.path, aside)
        progress(line)

    marking = asyncio.create_task(_mark(directory.path, aside), name="mark instance")
    try:
        await limactl.run(
            "create",
            "--tty=false",
            f"--name={directory.name}",
            str(aside / directory.lima_yaml.name),
            directory=directory,
            environment=environment,
            progress=tell,
        )
        await marking
    finally:
        marking.cancel()
        await asyncio.gather(marking, return_exceptions=True)
        _put_back(directory.path, aside)


def _step_aside(path: Path, aside: Path) -> None:
    try:
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    except OSError as error:
        raise HostError.from_os(f'rename "{path}"', error) from error


async def _mark(path: Path, aside: Path) -> None:
    """Put our files into limactl's directory as soon as it is there."""
    while not _exists(path):  # noqa: ASYNC110 - limactl tells nobody
        await asyncio.sleep(_POLL_S)
    _copy(path, aside)


def _exists(path: Path) -> bool:
    return path.exists()


def _copy(path: Path, aside: Path) -> None:
    for name in _OURS:
        if (aside / name).exists():
            shutil.copy2(aside / name, path / name)


def _put_back(path: Path, aside: Path) -> None:
    """Whatever happened: there is one directory, and it is marked."""
    if path.exists():
        _copy(path, aside)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.rename(path)
