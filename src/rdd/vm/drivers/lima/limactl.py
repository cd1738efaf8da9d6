# SPDX-License-Identifier: Apache-2.0
"""Execution of limactl: path, version, progress messages and errors.

limactl logs to stderr, as JSON with `--log-format=json`; messages before it parses that option,
such as about an unknown option, are text (`time="…" level=fatal msg="…"`). The last messages
are the reason of a failure.
"""

import asyncio
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from rdd.host.commands import run_blocking, start_process
from rdd.host.errors import HostError
from rdd.host.exits import ended_within
from rdd.host.files import remove
from rdd.host.processes import identity
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.kill import kill_all
from rdd.vm.process_files import write_pid_file

PROGRAM = "limactl"
LINES = 3  # of the log that become part of an error
_VERSION_S = 10.0
_TERMINATE_S = 3.0
_KILL_S = 5.0
_CHUNK_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 20
_message = re.compile(rb'\bmsg="((?:[^"\\]|\\.)*)"').search
_line_ends = re.compile(rb"[\r\n]+").split  # a progress bar uses carriage returns
_version = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?").search


def remedy() -> str:
    """Return how to install or update limactl."""
    if sys.platform == "darwin":
        return "brew install lima"
    return "see https://lima-vm.io/docs/installation/"


def find(environment: Mapping[str, str]) -> str | None:
    """Return the path of limactl; None if it is not installed."""
    return shutil.which(PROGRAM, path=environment.get("PATH", ""))


def program(environment: Mapping[str, str]) -> str:
    """Return the path of limactl. Raises HostError."""
    found = find(environment)
    if found is None:
        raise HostError(
            f"{PROGRAM}, which runs this machine, is no longer on the PATH ({remedy()})"
        )
    return found


def command(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command line of limactl for non-interactive use. Raises HostError."""
    return (program(environment), "--log-format=json", "--tty=false")


def environment_for(directory: InstanceDirectory, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the LIMA_HOME of a machine."""
    return {**environment, "LIMA_HOME": str(directory.path.parent)}


def version(path: str) -> tuple[int, ...]:
    """Return the version of limactl; cached per installed file. Raises HostError."""
    try:
        file = Path(path).stat()
    except OSError as error:
        raise HostError.from_os(f'look at "{path}"', error) from error
    return _read_version(path, file.st_mtime_ns, file.st_size)


@functools.lru_cache(maxsize=4)
def _read_version(path: str, modified_ns: int, size: int) -> tuple[int, ...]:
    answer = run_blocking(path, "--version", timeout_s=_VERSION_S)
    if answer.status != 0:
        message = message_of(answer.errors.strip().encode()) or answer.error_summary()
        raise HostError(f"{PROGRAM} --version failed: {message}")
    found = _version(answer.output)
    if found is None:
        raise HostError(f'{PROGRAM} --version printed no version: "{answer.output.strip()}"')
    return tuple(int(part) for part in found.groups("0"))


def message_of(line: bytes) -> str:
    """Return the message in a line of limactl's log, as one line."""
    text = line.decode(errors="replace").strip()
    if text.startswith("{"):
        try:
            entry = json.loads(text)
            text = f"{entry['msg']} {entry.get('location', '')}"
        except (ValueError, KeyError, TypeError):
            pass
    elif found := _message(line):
        quoted = found[1].decode(errors="replace")
        try:
            text = str(json.loads(f'"{quoted}"'))
        except ValueError:
            text = quoted
    return "; ".join(part.strip() for part in text.splitlines() if part.strip())


async def run(
    *arguments: str,
    directory: InstanceDirectory,
    environment: Mapping[str, str],
    progress: Callable[[str], None] = lambda line: None,
    pid_file: Path | None = None,
) -> None:
    """Run a subcommand to its end; `progress` gets each message.

    A cancellation ends it with its children. `pid_file` identifies it while it runs.
    Raises HostError with its last messages.
    """
    words = [*command(environment), *arguments]
    try:
        process = await start_process(
            *words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment_for(directory, environment),
            start_new_session=True,
        )
    except OSError as error:
        raise HostError.from_os(f'start "{words[0]}"', error) from error
    last: deque[str] = deque(maxlen=LINES)
    try:
        who = identity(process.pid)
        if pid_file is not None and who is not None:
            write_pid_file(pid_file, who)
        assert process.stderr is not None
        async for line in _lines(process.stderr):
            if text := message_of(line):
                last.append(text)
                progress(text)
        status = await process.wait()
    finally:
        await asyncio.shield(_end(process))
        if pid_file is not None:
            remove(pid_file)
            remove(pid_file.with_suffix(".identity"))
    if status != 0:
        message = " / ".join(last) or f"exit status {status}"
        raise HostError(f"{PROGRAM} {arguments[0]} failed: {message}")


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    while chunk := await stream.read(_CHUNK_BYTES):
        *lines, rest = _line_ends(rest + chunk)
        for line in lines:
            yield line
        if len(rest) > _MAX_LINE_BYTES:
            rest = b""
    if rest:
        yield rest


async def _end(process: asyncio.subprocess.Process) -> None:
    """End limactl and its children, unless it has ended."""
    who = identity(process.pid) if process.returncode is None else None
    if who is None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(who.pid, signal.SIGTERM)
    if not await ended_within(who, _TERMINATE_S):
        await kill_all([who], timeout_s=_KILL_S)
    await process.wait()
