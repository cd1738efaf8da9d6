# SPDX-License-Identifier: Apache-2.0
"""Run programs to their end and capture their output.

Every failure is a HostError for the user: the program, the timeout, the last lines of its
errors. A program never gets our terminal, and ends when its caller is cancelled. `spawn.py`
starts programs that outlive this process.
"""

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdd.host.errors import FailureReason, HostError
from rdd.host.signals import restoring_signals
from rdd.host.spawn import run_captured

_ERROR_LINES = 2  # the last lines of stderr that an error message shows


class TimedOut(HostError):
    """The program did not end in time and was killed."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Exit status and output of a program."""

    command: tuple[str, ...]
    status: int
    output: str
    errors: str

    def checked(self, title: str = "") -> str:
        """Return the output. Raises HostError with the end of its errors if the program failed.

        `title` replaces a command that is too long for the message.
        """
        if self.status != 0:
            title = title or shlex.join((Path(self.command[0]).name, *self.command[1:]))
            raise HostError(f"{title}: {self.error_summary()}")
        return self.output

    def error_summary(self) -> str:
        """Return the last lines of its errors, or else its exit status."""
        lines = self.errors.strip().splitlines()[-_ERROR_LINES:]
        return " / ".join(lines) or f"exit status {self.status}"


def search_path(environment: Mapping[str, str], *, also: Sequence[str] = ()) -> str:
    """Return PATH, extended by further directories."""
    return os.pathsep.join([environment.get("PATH", "/usr/bin:/bin"), *also])


def find(name: str, environment: Mapping[str, str], *, also: Sequence[str] = ()) -> Path | None:
    """Return the path of a program; None if it is not installed."""
    found = shutil.which(name, path=search_path(environment, also=also))
    return Path(found) if found else None


async def start_process(
    program: str | Path, *arguments: str | Path, **options: Any
) -> asyncio.subprocess.Process:
    """Start a program; `options` are those of asyncio.create_subprocess_exec. Raises OSError."""
    options |= restoring_signals()
    return await asyncio.create_subprocess_exec(program, *arguments, **options)


async def communicate(process: asyncio.subprocess.Process, data: bytes) -> tuple[bytes, bytes]:
    """Send `data` to a program and return its output and errors at its end.

    Unlike the method of this name it copes with a program that ends without reading its
    input: uvloop has closed the pipe then and raises RuntimeError.
    """
    _, captured = await asyncio.gather(_feed(process.stdin, data), process.communicate())
    return captured


async def _feed(stdin: asyncio.StreamWriter | None, data: bytes) -> None:
    if stdin is None:
        return
    with suppress(ConnectionError, RuntimeError):
        stdin.write(data)
        await stdin.drain()
    stdin.close()


def run_blocking(
    *command: str | Path,
    timeout_s: float | None,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    remedy: str = "",
) -> CommandResult:
    """Run a program with `text` as its input; blocks. Raises HostError if it cannot be run.

    `remedy` is a hint for the user if the program is not installed.
    """
    words = tuple(str(word) for word in command)
    try:
        done = run_captured(
            words,
            input=text,
            timeout=timeout_s,
            env=None if environment is None else dict(environment),
        )
    except OSError as error:
        raise _not_started(words[0], error, remedy) from error
    except subprocess.TimeoutExpired:
        raise _timed_out(words[0], timeout_s or 0) from None
    return CommandResult(words, done.returncode, done.stdout, done.stderr)


async def run(
    *command: str | Path,
    timeout_s: float,
    text: str = "",
    environment: Mapping[str, str] | None = None,
    remedy: str = "",
) -> CommandResult:
    """Run a program like `run_blocking`, without blocking the loop. Cancelling kills it."""
    words = tuple(str(word) for word in command)
    try:
        process = await start_process(
            *words,
            stdin=subprocess.PIPE if text else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if environment is None else dict(environment),
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(words[0], error, remedy) from error
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await communicate(process, text.encode())
    except TimeoutError:
        raise _timed_out(words[0], timeout_s) from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    status = process.returncode if process.returncode is not None else 255
    return CommandResult(
        words, status, output.decode(errors="replace"), errors.decode(errors="replace")
    )


def _not_started(program: str, error: OSError, remedy: str) -> HostError:
    hint = f"; {remedy}" if remedy else ""
    if isinstance(error, FileNotFoundError):
        return HostError(
            f'the program "{program}" is not installed{hint}', reason=FailureReason.NOT_INSTALLED
        )
    return HostError(f'failed to start "{program}": {error.strerror or error}{hint}')


def _timed_out(program: str, timeout_s: float) -> TimedOut:
    return TimedOut(f"{Path(program).name} did not end within {timeout_s:g} s")
