# SPDX-License-Identifier: Apache-2.0
"""Starting a process that lives on without us.

It gets a session of its own (no terminal, no signals meant for our group), empty
input, log files as output, and no other open file of ours: whoever waits for the
end of our output, such as `$(rdd svc start)` in a script, does not wait for it.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from rdd.host.errors import HostError


def spawn_detached(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    stdout: Path,
    stderr: Path,
    inherit: Sequence[int] = (),
) -> "subprocess.Popen[bytes]":
    """Start a program. `inherit` are the descriptors it gets. Raises HostError."""
    _heed_interrupts()
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    opened: list[int] = []
    try:
        for path in (stdout, stderr):
            opened.append(os.open(path, flags, 0o600))
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


def _heed_interrupts() -> None:
    """Shells start background jobs with SIGINT ignored; a child would inherit that and be deaf."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
