# SPDX-License-Identifier: Apache-2.0
"""Runs checks every 15 s in a thread of its own, and reports only that a finding has changed.

The thread has the timer, so a round without a change wakes neither the event loop nor a worker:
one wake-up for the timer and one for the response of the engine. Run by the loop, a round would
cost four more (timer, worker, result, and the TLS connection of a check to the loop itself).
"""

import threading
from collections.abc import Callable, Mapping

from rdd.controllers.app.diagnostics.findings import Finding

Round = Callable[[], Mapping[str, Finding]]


class Sampler:
    """Compares rounds of checks with the findings that are known. `changed` may block."""

    def __init__(self, changed: Callable[[], None], *, interval_s: float) -> None:
        self._changed = changed
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None
        self._round: Round = dict
        self._known: Mapping[str, Finding] = {}

    def start(self, checks: Round, known: Mapping[str, Finding]) -> None:
        """Run `checks` from now on and compare with `known`; idempotent."""
        with self._lock:
            self._round, self._known = checks, dict(known)
            if self._stop is not None:
                return
            self._stop = threading.Event()
        # A daemon thread: a check that hangs must not delay the end of the process.
        threading.Thread(
            target=self._run, args=(self._stop,), name="diagnostics", daemon=True
        ).start()

    def stop(self) -> None:
        """End the thread after its present round. Idempotent."""
        with self._lock:
            stop, self._stop = self._stop, None
        if stop is not None:
            stop.set()

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(self._interval_s):
            with self._lock:
                checks = self._round
            found = checks()
            with self._lock:
                is_changed = not stop.is_set() and any(
                    self._known.get(name) != finding for name, finding in found.items()
                )
            if is_changed:
                self._changed()
