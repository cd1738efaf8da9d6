# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C in a command: one policy for every moment of the process.

Python's own handler raises KeyboardInterrupt wherever the program is. Inside a destructor, or
in the cleanup of a generator that is garbage-collected, such an exception cannot propagate:
Python prints "Exception ignored in …" with a traceback and continues. During start-up and exit
it prints a traceback, too. So:

- while modules are imported and while the interpreter exits, SIGINT has its default
  disposition, which ends the process silently: there is nothing to clean up;
- while a command runs, the first SIGINT raises KeyboardInterrupt, so that `finally` blocks run;
  one that was lost in a destructor is raised again right after it;
- the second SIGINT ends the process at once, even if a cleanup blocks.

A SIGINT that was inherited as ignored stays ignored, as for the programs of a shell.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

INTERRUPTED = 130
"""The exit code after a Ctrl-C: 128 + SIGINT."""


def end_silently() -> None:
    """Give SIGINT its default disposition, unless it is ignored. Main thread only."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_interruptible(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; exit the process if it is interrupted.

    Afterwards SIGINT has its default disposition: the caller is about to exit.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return command()
    sys.unraisablehook = _report_unraisable
    try:
        signal.signal(signal.SIGINT, _interrupt)
        code = command()
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        _exit_now()
    end_silently()
    return code


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Tasks and threads that the exception ends would be logged as failures.
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.disable()
    raise KeyboardInterrupt


def _report_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.setprofile(_raise_again)
    else:
        sys.__unraisablehook__(unraisable)


def _raise_again(frame: FrameType, event: str, argument: object) -> None:
    """Raise at the first call or return outside of the hook: an exception of a hook is lost."""
    if frame.f_code is not _report_unraisable.__code__:
        sys.setprofile(None)
        raise KeyboardInterrupt


def _exit_now() -> None:
    """Flush the output and exit without running the interpreter's teardown."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError, RuntimeError):
            pass  # closed by the caller, or interrupted in a write
    os._exit(INTERRUPTED)
