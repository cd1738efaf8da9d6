# SPDX-License-Identifier: Apache-2.0
"""Start programs in tests: the only module of the suite that does (tests/guards checks it).

A program started here

- has the default signal dispositions, however the suite was started. A shell starts background
  jobs with SIGINT ignored, and `nohup` ignores SIGHUP. Programs inherit ignored signals, so a
  test that interrupts such a program would wait forever. `reset_signals` replaces ignored
  signals of the session by handlers, which exec(2) resets to the default.
- has a session of its own: a Ctrl-C at the terminal reaches the suite only, which then ends its
  programs, and a program that sets the terminal, as `kubectl edit` does, is not stopped by
  SIGTTOU as one in the background of the terminal is.
- ends with its `with` block (or with the fixture that entered it), together with its process
  group, and its pipes are closed. A pipe left open by a failed test would raise a
  ResourceWarning, an error here, in whichever test runs when it is garbage-collected.
- is never waited for without a timeout.

Timeouts here are deadlines for a program that hangs, not measurements: they hold on a machine
that is several times slower than usual.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess, TimeoutExpired
from types import FrameType
from typing import IO, AnyStr, Generic

__all__ = [
    "DEVNULL",
    "PIPE",
    "TIMEOUT_S",
    "CompletedProcess",
    "Program",
    "TimeoutExpired",
    "reset_signals",
    "run_program",
    "start_program",
    "with_signals_ignored",
]

TIMEOUT_S = 120.0
"""Below the timeout of a test, so that the failure names the program that hangs."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

Command = Sequence[str | Path]
Stream = int | IO[bytes] | IO[str] | None


def reset_signals() -> None:
    """Undo inherited dispositions of the session: ignored and blocked stop signals.

    SIGINT gets Python's own handler, on which asyncio.run() depends. The session stays
    unaffected by the other signals that it inherited as ignored.
    """

    def ignore(_number: int, _frame: FrameType | None) -> None:
        pass

    for number in STOP_SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            is_interrupt = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else ignore)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


class Program(subprocess.Popen[AnyStr], Generic[AnyStr]):
    """A running program and its pipes; a context manager that ends it."""

    def wait(self, timeout: float | None = TIMEOUT_S) -> int:
        return super().wait(timeout)

    def communicate(
        self, input: AnyStr | None = None, timeout: float | None = TIMEOUT_S
    ) -> tuple[AnyStr, AnyStr]:
        return subprocess.Popen.communicate(self, input, timeout)

    def read_until(
        self,
        is_last: Callable[[AnyStr], object] = bool,
        *,
        stream: IO[AnyStr] | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[AnyStr]:
        """Read stdout, or another stream, up to the first line that satisfies `is_last`.

        The default is the first line. Fails when the output ends before; kills the program, which
        ends its output, at the deadline.
        """
        source = stream or self.stdout
        assert source is not None
        lines: list[AnyStr] = []
        watchdog = threading.Timer(timeout, self._kill_group)
        watchdog.start()
        try:
            for line in source:
                lines.append(line)
                if is_last(line):
                    return lines
        finally:
            watchdog.cancel()
            watchdog.join()
        raise AssertionError(f"{self.args!r} ended its output, or {timeout} s passed: {lines!r}")

    def end(self) -> None:
        """Kill the program and its process group, reap it and close its pipes."""
        self._kill_group()
        super().wait(TIMEOUT_S)
        for pipe in (self.stdin, self.stdout, self.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def __exit__(self, *_exception: object) -> None:
        self.end()

    def _kill_group(self) -> None:
        # Not after it was reaped: the id may belong to another group by now.
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)


def with_signals_ignored(command: Command) -> list[str | Path]:
    """Return a command that runs another one as `nohup` or a background job of a shell do."""
    names = " ".join(number.name.removeprefix("SIG") for number in STOP_SIGNALS)
    return ["sh", "-c", f"trap '' {names}; exec \"$@\"", "sh", *command]


def start_program(
    command: Command,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    stdin: Stream = DEVNULL,
    stdout: Stream = PIPE,
    stderr: Stream = None,
    pass_fds: Iterable[int] = (),
) -> Program[str]:
    """Start a program whose pipes are text. Use it in a `with` block or an ExitStack.

    Without `stderr` its messages go to the captured output of the test.
    """
    return Program(
        command,
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=tuple(pass_fds),
        start_new_session=True,
        encoding="utf-8",
    )


def run_program(
    command: Command,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    input: str | bytes | None = None,
    stdout: Stream = PIPE,
    stderr: Stream = PIPE,
    close_fds: bool = True,
    check: bool = False,
    timeout: float = TIMEOUT_S,
) -> CompletedProcess[str]:
    """Run a program to its end; with `check` it must succeed."""
    data = input.encode() if isinstance(input, str) else input
    running: Program[bytes] = Program(
        command,
        env=env,
        cwd=cwd,
        stdin=DEVNULL if data is None else PIPE,
        stdout=stdout,
        stderr=stderr,
        close_fds=close_fds,
        start_new_session=True,
    )
    with running as program:
        try:
            out, err = program.communicate(data, timeout)
        except TimeoutExpired as expired:
            written = [text for text in (expired.stdout, expired.stderr) if text]
            raise AssertionError(f"{command!r} still runs after {timeout} s: {written!r}") from None
    done = CompletedProcess(
        command, program.returncode, (out or b"").decode(), (err or b"").decode()
    )
    assert not check or done.returncode == 0, f"{done}"
    return done
