# SPDX-License-Identifier: Apache-2.0
"""Copies of directories that are identical in everything a container engine depends on.

GNU cp does it: owners, modes, times, hard links, sparse files, extended attributes (also
`trusted.*` and `security.capability`), whiteouts and other devices, fifos, sockets. It shares the
blocks of files where the file system can (reflink), and otherwise copies what is not a hole
inside the kernel. A program of its own keeps the loop free, and ends when the caller is cancelled.

Files of a rootless container engine belong to subordinate ids of the user. RootlessKit maps them,
as `tree_removal` does.
"""

import asyncio
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from rdd.host.commands import start_process
from rdd.host.errors import FailureReason, HostError
from rdd.host.signals import restoring_signals

_COPY = ("cp", "--archive", "--reflink=auto", "--sparse=auto")
# A file that is there already and as new is kept; any other one is replaced, never written into.
_COMPLETE = ("--update", "--remove-destination")
_REPORT_S = 0.5
_ERROR_LINES = 2
_FICLONE = 0x40049409  # ioctl of Linux: share the blocks of another file

Report = Callable[[int], None]
"""Called with the number of bytes that have been written."""


def as_owner(*command: str) -> tuple[str, ...]:
    """Return a command that may read and create files of all ids of this user."""
    program = None if os.geteuid() == 0 else shutil.which("rootlesskit")
    return command if program is None else (program, *command)


async def copy_entries(
    source: Path,
    names: Sequence[str],
    target: Path,
    *,
    completes: bool = False,
    flushes: bool = True,
    report: Report = lambda _: None,
) -> None:
    """Copy entries of a directory to an existing one, and return when they are on the disk.

    With `completes` the files that are there already are not copied; without `flushes` the caller
    waits for the disk. Cancelling ends the copy; what it has written stays for the caller. Raises
    HostError.
    """
    if names:
        paths = [str(source / name) for name in names]
        how = (*_COPY, *_COMPLETE) if completes else _COPY
        command = as_owner(*how, "--target-directory", str(target), "--", *paths)
        await run_program(command, title=f'copy "{source}" to "{target}"', report=report)
    if flushes:
        await flush(target)


async def flush(path: Path) -> None:
    """Return when everything on the file system of a path is on the disk. Raises HostError."""
    await run_program(("sync", "--file-system", str(path)), title=f'write "{path}" to the disk')


async def run_program(
    command: Sequence[str], *, title: str, report: Report = lambda _: None
) -> None:
    """Run a program to its end, however long it takes. Raises HostError; cancelling ends it."""
    with tempfile.TemporaryFile() as errors:
        try:
            process = await start_process(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
            )
        except OSError as error:
            raise HostError.from_os(f'start "{command[0]}"', error) from error
        try:
            await _wait(process, report)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)  # RootlessKit has children
                await process.wait()
        if process.returncode:
            errors.seek(0)
            raise failure(title, errors.read().decode(errors="replace"), process.returncode)


def run_program_blocking(command: Sequence[str], *, title: str) -> None:
    """Run a program like `run_program`, in a command. Raises HostError."""
    try:
        done = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env={**os.environ, "LC_ALL": "C"},
            **restoring_signals(),
        )
    except OSError as error:
        raise HostError.from_os(f'start "{command[0]}"', error) from error
    if done.returncode:
        raise failure(title, done.stderr, done.returncode)


def failure(title: str, errors: str, status: int) -> HostError:
    """Return the error of a program that could not do what `title` names."""
    lines = errors.strip().splitlines()
    if any("No space left on device" in line for line in lines):
        return HostError(
            f"failed to {title}: no space left on device", reason=FailureReason.DISK_FULL
        )
    return HostError(
        f"failed to {title}: {' / '.join(lines[:_ERROR_LINES]) or f'exit status {status}'}"
    )


async def _wait(process: asyncio.subprocess.Process, report: Report) -> None:
    ended = asyncio.ensure_future(process.wait())
    try:
        while True:
            done, _ = await asyncio.wait({ended}, timeout=_REPORT_S)
            if done:
                return
            report(_written_bytes(process.pid))
    finally:
        ended.cancel()


def _written_bytes(pid: int) -> int:
    """Return how much a process has written; 0 if that is unknown."""
    try:
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "wchar":
                return int(value)
    except (OSError, ValueError):
        pass
    return 0


def shares_blocks(source: Path, target: Path) -> bool:
    """Return whether a copy from one directory to another takes no space (reflink).

    Both must exist and be writable. Writes a temporary file to each.
    """
    try:
        with (
            tempfile.NamedTemporaryFile(dir=source, prefix=".rdd-probe-") as read,
            tempfile.NamedTemporaryFile(dir=target, prefix=".rdd-probe-") as write,
        ):
            read.write(bytes(4096))
            read.flush()
            fcntl.ioctl(write.fileno(), _FICLONE, read.fileno())
    except OSError:
        return False
    return True
