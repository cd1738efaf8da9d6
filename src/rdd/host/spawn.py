# SPDX-License-Identifier: Apache-2.0
"""Start programs: with default signal dispositions, and detached if they outlive this process.

`spawn_detached` gives a program a session of its own (no terminal, no signals sent to our
process group), empty input, log files as output, and no other open file of ours, so that
`$(rdd service start)` in a script does not wait for its end.

It starts with the stop signals blocked. A signal that arrives before its handlers exist (a
Python program takes a while to load) stays pending until `accept_signals`, instead of ending
the process in the middle of an import.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rdd.host.errors import HostError
from rdd.host.signals import STOP_SIGNALS, restoring_signals


def popen(
    command: Sequence[str | Path], *, keeps_ignored: bool = False, **options: Any
) -> "subprocess.Popen[bytes]":
    """Start a program; `options` are those of subprocess.Popen. Raises OSError.

    With `keeps_ignored` it inherits ignored signals, as the program of a shell does.
    """
    restored = {} if keeps_ignored else restoring_signals()
    return subprocess.Popen(list(command), **options, **restored)


def run_captured(
    command: Sequence[str | Path], **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end and capture its output. Raises OSError, TimeoutExpired."""
    return subprocess.run(
        list(command),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        **options,
        **restoring_signals(),
    )


def run_foreground(command: Sequence[str | Path], **options: Any) -> int:
    """Run a program that shares our terminal and return its exit status. Raises OSError.

    It inherits ignored signals, as the child of a shell does.
    """
    return subprocess.run(list(command), check=False, **options).returncode


def spawn_detached(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    stdout: Path,
    stderr: Path,
    inherit: Sequence[int] = (),
    blocks_signals: bool = True,
) -> "subprocess.Popen[bytes]":
    """Start a program. `inherit` are the descriptors it gets. Raises HostError.

    `blocks_signals=False` is for a foreign program: it would never call `accept_signals`, and
    its children would inherit the blocked signals.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    opened: list[int] = []
    try:
        for path in (stdout, stderr):
            opened.append(os.open(path, flags, 0o600))
        with _signals_blocked() if blocks_signals else contextlib.nullcontext():
            return popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=opened[0],
                stderr=opened[1],
                env=dict(environment),
                cwd=directory,
                close_fds=True,
                pass_fds=tuple(inherit),
                start_new_session=True,
            )
    except OSError as error:
        name = error.filename or command[0]
        raise HostError.from_os(f'start "{name}"', error) from error
    finally:
        for descriptor in opened:
            os.close(descriptor)


def spawn_into_log(command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    """Start a foreign program, in the directory of its log. Raises HostError."""
    return spawn_detached(
        command,
        environment=os.environ,
        directory=log.parent,
        stdout=log,
        stderr=log,
        blocks_signals=False,
    )


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
