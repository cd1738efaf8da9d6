# SPDX-License-Identifier: Apache-2.0
"""Progress of a waiting command: a live line on a terminal, log lines elsewhere.

A phase is a named step with a duration. On a terminal, a finished phase stays as a line
with its time and the current one is redrawn in place; otherwise only the log lines of
the command appear. Other output is written within `aside`, so that it does not break the
live line. `--timings` prints the table of phases at the end in either case.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from rdd.cli.framework.types import Call
from rdd.cli.framework.wording import plain

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_INTERVAL_S = 0.1
_SOURCE_INTERVAL = 5  # frames between two looks at a source of details
LONG_S = 2.0
"""A wait of this duration shows its progress."""
_CLEAR = "\r\x1b[K"
_WIDTH = 80  # fallback if the terminal does not report its width


class Progress:
    """The phases of one command. `live` is the terminal to draw on, or None.

    Nothing is drawn before `delay_s`: a command that is usually quick stays silent.
    """

    def __init__(self, live: TextIO | None = None, *, delay_s: float = 0.0) -> None:
        self._live = live
        self._delay_s = delay_s
        self._source: Callable[[], str] | None = None
        self._step = ""
        self._lock = threading.Lock()
        self._name = ""
        self._detail = ""
        self._began = self._began_phase = time.monotonic()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self.finished: list[tuple[str, float]] = []
        """Name and seconds of each phase that is complete."""

    def phase(self, name: str, detail: str = "") -> None:
        """Start a phase and complete the previous one; the same name updates the detail."""
        with self._lock:
            if name != self._name:
                self._complete("✓")
                self._name, self._began_phase = name, time.monotonic()
            self._detail = plain(detail.partition("\n")[0])
            self._draw(0)
        if self._live is not None and self._thread is None:
            self._thread = threading.Thread(target=self._spin, name="rdd-progress", daemon=True)
            self._thread.start()

    def detail(self, text: str) -> None:
        """Change the detail of the present phase."""
        with self._lock:
            self._detail = plain(text.partition("\n")[0])

    def watch(self, source: Callable[[], str]) -> None:
        """Show what `source` returns beside the phase; it is called twice a second."""
        self._source = source

    def end(self, mark: str = "✓") -> None:
        """Complete the last phase."""
        with self._lock:
            self._complete(mark)
            self._name = ""
        self._done.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Clear the live line while other output is written; it is redrawn below."""
        with self._lock:
            if self._live is not None and self._name and self._is_shown():
                self._live.write(_CLEAR)
                self._live.flush()
            yield

    def timings(self) -> str:
        """Return one line per phase and the total."""
        rows = [*self.finished, ("total", sum(seconds for _, seconds in self.finished))]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"  {name:<{width}}  {seconds:7.2f} s" for name, seconds in rows)

    def _complete(self, mark: str) -> None:
        if not self._name:
            return
        seconds = time.monotonic() - self._began_phase
        self.finished.append((self._name, seconds))
        if self._live is not None and self._is_shown():
            self._live.write(f"{_CLEAR}{mark} {self._name}  {seconds:.1f} s\n")
            self._live.flush()

    def _spin(self) -> None:
        count = 0
        while not self._done.wait(_INTERVAL_S):
            count += 1
            if self._source is not None and count % _SOURCE_INTERVAL == 0:
                self._step = self._source()
            with self._lock:
                self._draw(count)

    def _draw(self, count: int) -> None:
        if self._live is None or not self._name or not self._is_shown():
            return
        seconds = time.monotonic() - self._began_phase
        text = f"{_FRAMES[count % len(_FRAMES)]} {self._name}  {seconds:.1f} s"
        if details := ", ".join(filter(None, (self._detail, self._step))):
            text += f"  {details}"
        self._live.write(_CLEAR + text[: _width(self._live) - 1])
        self._live.flush()

    def _is_shown(self) -> bool:
        return time.monotonic() - self._began >= self._delay_s


def _width(terminal: TextIO) -> int:
    try:
        return os.get_terminal_size(terminal.fileno()).columns or _WIDTH
    except OSError:
        return _WIDTH


@contextlib.contextmanager
def shown(call: Call, *, delay_s: float = 0.0) -> Iterator[Progress]:
    """Show the progress of a command: on a terminal, and not when it also logs."""
    is_terminal = sys.stderr.isatty() and call.environment.variables.get("TERM") != "dumb"
    is_live = is_terminal and call.log.level in ("fatal", "error", "warning")
    progress = Progress(sys.stderr if is_live else None, delay_s=delay_s)
    try:
        yield progress
    except BaseException:
        progress.end("✗")
        raise
    progress.end()
    if call.flags.values.get("timings"):
        sys.stderr.write(progress.timings() + "\n")


@contextlib.contextmanager
def waiting(call: Call, phase: str) -> Iterator[Progress]:
    """Show a step that usually ends at once, if it takes more than two seconds."""
    with shown(call, delay_s=LONG_S) as progress:
        progress.phase(phase)
        yield progress
