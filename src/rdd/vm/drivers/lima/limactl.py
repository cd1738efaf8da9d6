# SPDX-License-Identifier: Apache-2.0
"""Running limactl: where it is, which version, what it says while it works and when it fails.

It logs to stderr, in JSON when asked to; what it says before it has read that option, such as
about an option it does not know, comes as text (`time="…" level=fatal msg="…"`). The last of it is
why it failed.
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
LINES = 3  # of what it said that belong to an error
_VERSION_S = 10.0
_TERMINATE_S = 3.0
_KILL_S = 5.0
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20
_message = re.compile(rb'\bmsg="((?:[^"\\]|\\.)*)"').search
_line_ends = re.compile(rb"[\r\n]+").split  # a bar that shows progress returns to its beginning
_version = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?").search


def remedy() -> str:
    """How limactl is installed, or brought up to date."""
    if sys.platform == "darwin":
        return "brew install lima"
    return "install it as https://lima-vm.io/docs/installation/ says"


def find(environment: Mapping[str, str]) -> str | None:
    """The path of limactl; None where it is not installed."""
    return shutil.which(PROGRAM, path=environment.get("PATH", ""))


def program(environment: Mapping[str, str]) -> str:
    """The path of limactl. Raises HostError."""
    found = find(environment)
    if found is None:
        raise HostError(
            f"{PROGRAM} is not on the PATH any more, and this machine is run by it ({remedy()})"
        )
    return found


def command(environment: Mapping[str, str]) -> tuple[str, ...]:
    """limactl, as it is run without a person in front of it. Raises HostError."""
    return (program(environment), "--log-format=json", "--tty=false")


def environment_for(directory: InstanceDirectory, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the LIMA_HOME of a machine."""
    return {**environment, "LIMA_HOME": str(directory.path.parent)}


def version(path: str) -> tuple[int, ...]:
    """What `limactl --version` says; asked once per installed file. Raises HostError."""
    try:
        file = Path(path).stat()
    except OSError as error:
        raise HostError.from_os(f'look at "{path}"', error) from error
    return _ask_version(path, file.st_mtime_ns, file.st_size)


@functools.lru_cache(maxsize=4)
def _ask_version(path: str, modified_ns: int, size: int) -> tuple[int, ...]:
    answer = run_blocking(path, "--version", timeout_s=_VERSION_S)
    if answer.status != 0:
        said = message_of(answer.errors.strip().encode()) or answer.error_summary()
        raise HostError(f"{PROGRAM} --version failed: {said}")
    found = _version(answer.output)
    if found is None:
        raise HostError(f'{PROGRAM} does not tell its version: "{answer.output.strip()}"')
    return tuple(int(part) for part in found.groups("0"))


def message_of(line: bytes) -> str:
    """What a line of limactl's log says to a person, in one line."""
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
    """Run a subcommand to its end; each thing it says goes to `progress`.

    Cancelling ends it, with all it has started. `pid_file` tells of it as long as it runs.
    Raises HostError with its last words.
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
        said = " / ".join(last) or f"exit status {status}"
        raise HostError(f"{PROGRAM} {arguments[0]} failed: {said}")


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    while chunk := await stream.read(_CHUNK):
        *lines, rest = _line_ends(rest + chunk)
        for line in lines:
            yield line
        if len(rest) > _LONGEST_LINE:
            rest = b""
    if rest:
        yield rest


async def _end(process: asyncio.subprocess.Process) -> None:
    """End limactl and its helpers, if it has not ended yet."""
    who = identity(process.pid) if process.returncode is None else None
    if who is None:
        return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(who.pid, signal.SIGTERM)
    if not await ended_within(who, _TERMINATE_S):
        await kill_all([who], timeout_s=_KILL_S)
    await process.wait()
