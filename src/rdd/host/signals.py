# SPDX-License-Identifier: Apache-2.0
"""Signal dispositions: what a process inherits, and what its children must not inherit.

Ignored signals are inherited across exec. A shell starts background jobs with SIGINT and
SIGQUIT ignored, nohup ignores SIGHUP, and Python itself ignores SIGPIPE. A program that
inherits one of these does not react to the signal that is supposed to stop it, and its own
children neither. So every spawn passes `restoring_signals()` to subprocess. It costs a function
between fork and exec, and only where something is ignored: our own long-running programs call
`accept_signals` at their start and have nothing ignored afterwards.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INHERITABLE = (*STOP_SIGNALS, signal.SIGQUIT)
# Python ignores these in itself. subprocess restores them in a child, exec does not.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


def restoring_signals() -> dict[str, Any]:
    """Return the options of subprocess that restore default dispositions in a child."""
    if any(signal.getsignal(number) is signal.SIG_IGN for number in _INHERITABLE):
        return {"preexec_fn": restore_signals}
    return {}


def restore_signals() -> None:
    """Set inherited signals that are ignored to their default. Main thread only."""
    for number in _INHERITABLE:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def accept_signals() -> None:
    """Unblock the stop signals and deliver pending ones. Their handlers must be installed.

    Signals without a handler that were inherited as ignored get their default.
    """
    restore_signals()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def replace_process(
    program: str | Path, arguments: Sequence[str], environment: Mapping[str, str]
) -> NoReturn:
    """Replace this process by a program, found on PATH if it has no directory. Raises OSError.

    It inherits ignored stop signals, as the program of a shell does: what was started with
    nohup or in the background stays so.
    """
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(program, list(arguments), dict(environment))
    finally:
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_IGN)
