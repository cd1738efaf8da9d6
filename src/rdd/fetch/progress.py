# SPDX-License-Identifier: Apache-2.0
"""The progress of a fetch: bytes, rate and time left, as values and as one line of text."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from rdd.base.sizes import binary

_INTERVAL_S = 0.5
_WINDOW_S = 5.0  # the rate is the mean of the last seconds


@dataclass(frozen=True, slots=True)
class Progress:
    """What a fetch is doing."""

    text: str
    """The activity, such as `Downloading k3s`."""
    done_bytes: int = 0
    total_bytes: int = 0
    """0: unknown."""
    bytes_per_s: float = 0.0

    @property
    def remaining_s(self) -> int | None:
        """The estimated time left; None if it is unknown."""
        if not self.total_bytes or self.bytes_per_s <= 0:
            return None
        return round((self.total_bytes - self.done_bytes) / self.bytes_per_s)

    def __str__(self) -> str:
        if not self.done_bytes and not self.total_bytes:
            return self.text
        done = binary(self.done_bytes)
        if self.total_bytes:
            percent = 100 * self.done_bytes // self.total_bytes
            done = f"{percent} % ({done} of {binary(self.total_bytes)}"
            if self.bytes_per_s > 0 and self.done_bytes < self.total_bytes:
                done += f", {binary(self.bytes_per_s)}/s, {self.remaining_s} s left"
            done += ")"
        return f"{self.text}: {done}"


Report = Callable[[Progress], None]


class Meter:
    """Reports the bytes of one transfer, at most twice a second and at its end."""

    def __init__(self, text: str, report: Report) -> None:
        self._text = text
        self._report = report
        self._samples: list[tuple[float, int]] = []
        self._last_s = 0.0

    def update(self, done_bytes: int, total_bytes: int) -> None:
        """Report unless a report was made a moment ago."""
        now = time.monotonic()
        is_last = bool(total_bytes) and done_bytes >= total_bytes
        if self._samples and now - self._last_s < _INTERVAL_S and not is_last:
            return
        self._last_s = now
        self._samples = [one for one in self._samples if now - one[0] <= _WINDOW_S]
        self._samples.append((now, done_bytes))
        first_s, first_bytes = self._samples[0]
        rate = (done_bytes - first_bytes) / (now - first_s) if now > first_s else 0.0
        self._report(Progress(self._text, done_bytes, total_bytes, rate))
