# SPDX-License-Identifier: Apache-2.0
"""Starting a process that lives on without us.

It gets a session of its own (no terminal, no signals meant for our group), empty
input, log files as output, and no other open file of ours: whoever waits for the
end of our output, such as `$(rdd service start)` in a script, does not wait for it.

It starts with the signals that stop it blocked. One that comes before it can deal
with it (a Python program takes a while to load) waits for `heed_signals`, instead
of ending it somewhere in the middle or getting lost in an import.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rdd.host.errors import HostError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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

    `blocks_signals=False` is for a program that is not ours: it would never call
    `heed_signals`, and hand the blocked signals on to whatever it starts.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    opened: list[int] = []
    try:
        for path in (stdout, stderr):
            opened.append(os.open(path, flags, 0o600))
        with _signals_blocked() if blocks_signals else contextlib.nullcontext():
            return subprocess.Popen(
                list(command),
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
    """Start a program that is not ours, in the directory of its log. Raises HostError."""
    return spawn_detached(
        command,
        environment=os.environ,
        directory=log.parent,
        stdout=log,
        stderr=log,
        blocks_signals=False,
    )


def heed_signals() -> None:
    """Let in what stops us, also what came since we were started. The handlers must be there."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Start programs with the stop signals blocked, but not ignored.

    Shells start background jobs with SIGINT ignored, and who inherits that is deaf.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
