# SPDX-License-Identifier: Apache-2.0
"""Names the code that holds the event loop for longer than 50 ms.

Everything in the daemon shares one loop, so a computation that does not pause delays every
request. A timer of the CPU time of this process (`ITIMER_PROF`) sends a signal after every
`TICK_S` that it computes: an idle daemon gets none and sleeps on. The handler runs in the main
thread, in the middle of whatever computes there. It asks the loop to answer; if a later tick
finds that the loop has not answered although its thread has computed for `MAX_HOLD_S`, the
frame that was interrupted is the one to report.

Time is CPU time of the loop's thread, so that a machine that is busy with something else is no
reason to complain. Blocking calls are not seen; they belong in threads.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Iterator
from types import FrameType

from rdd.base.metrics import Registry

log = logging.getLogger("rdd.daemon")

TICK_S = 0.01
MAX_HOLD_S = 0.045
"""With the tick before the loop was asked, 50 ms."""
LOG_EVERY_S = 60.0
"""The minimum distance of two log lines about one function; the metric counts all."""

_DEPTH = 4


class LoopWatchdog:
    """Watches the loop of the main thread between `start` and `stop`."""

    def __init__(self, metrics: Registry) -> None:
        self._holds = metrics.counter(
            "rdd_loop_holds_total", "Times the event loop was held for more than 50 ms.", "function"
        )
        self._longest = 0.0
        metrics.gauge("rdd_loop_longest_hold_seconds", "The longest of them, in CPU time.").read(
            lambda: self._longest
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: float | None = None
        """The CPU time of the thread when the loop was asked; None: it has answered."""
        self._held_by: list[str] = []
        self._logged: dict[str, float] = {}

    def start(self) -> None:
        """Watch the running loop; MUST be called in the main thread."""
        self._loop = asyncio.get_running_loop()
        signal.signal(signal.SIGPROF, self._tick)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)

    def stop(self) -> None:
        """Stop watching."""
        if self._loop is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            self._loop = None

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Watch in a block."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def _tick(self, _signal: int, frame: FrameType | None) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        now = time.thread_time()
        if self._asked is None:
            self._asked = now
            loop.call_soon_threadsafe(self._answer)
        elif not self._held_by and now - self._asked >= MAX_HOLD_S:
            self._held_by = _names(frame)

    def _answer(self) -> None:
        asked, self._asked = self._asked, None
        held_by, self._held_by = self._held_by, []
        if asked is None or not held_by:
            return
        # Logged here: a signal handler may have interrupted the logger itself.
        held = time.thread_time() - asked
        self._longest = max(self._longest, held)
        self._holds.add(held_by[0])
        now = time.monotonic()
        if now - self._logged.get(held_by[0], -LOG_EVERY_S) >= LOG_EVERY_S:
            self._logged[held_by[0]] = now
            log.warning(
                "the event loop was held for %d ms by %s", held * 1000, " in ".join(held_by)
            )


def _names(frame: FrameType | None) -> list[str]:
    """Return the innermost functions, those of this project if there are any."""
    own: list[str] = []
    others: list[str] = []
    while frame is not None and len(own) < _DEPTH:
        code = frame.f_code
        module = str(frame.f_globals.get("__name__", "?"))
        (own if module.startswith("rdd.") else others).append(f"{module}.{code.co_qualname}")
        frame = frame.f_back
    return own or others[:_DEPTH] or ["?"]
