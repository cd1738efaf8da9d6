# SPDX-License-Identifier: Apache-2.0
"""The clock of a guest, which stands still while the guest or this host does.

Three things set it: the loop in the guest reports a difference, the guest was paused, or its
signs of life were interrupted, because this host slept or the process tree was stopped. The
wall clock notices the last one, because the monotonic clock stands still, too, while a host sleeps.

The guest gets the time over ssh, in whole seconds, because small guests cannot set fractions. A
guest that was just paused is slow, so the time is read back and set again. What is measured is
reported (`rdd.vm.clock_report`) when it changes; a clock that cannot be set is tried again at the
next comparison.
"""

import asyncio
import time
from dataclasses import replace

from rdd.vm.agent.events import now
from rdd.vm.clock_report import ClockReport, offset_text
from rdd.vm.drivers.protocol import DriverContext
from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.ssh import SshError

TOLERANCE_S = 1.0
_COMPARISON_TOLERANCE_S = 2.0  # what the loop writes is truncated, and late in an emulated guest
GAP_S = 6.0
"""Signs of life come about every 3 s, of an emulated guest under load every 5 s."""
_ATTEMPTS = 4


class GuestClock:
    """Keeps the clock of one guest at the time of this host."""

    def __init__(self, connection: GuestConnection, context: DriverContext) -> None:
        self._connection = connection
        self._context = context
        self._report: ClockReport | None = None
        self._last_sign_s = 0.0  # wall clock
        self._task: asyncio.Task[None] | None = None

    def sign_of_life(self) -> None:
        """Record that the guest runs; set the clock if that was interrupted."""
        now_s, last_s = time.time(), self._last_sign_s
        self._last_sign_s = now_s
        if last_s and not 0 <= now_s - last_s <= GAP_S:
            self.set_soon()

    def set_soon(self) -> None:
        """Set the clock in the background."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self.set(), name="guest clock")

    async def compare(self, ahead_s: float) -> None:
        """Set the clock if the guest reports a wrong one, or if the last attempt failed."""
        has_failed = self._report is not None and bool(self._report.problem)
        if has_failed or abs(ahead_s) > _COMPARISON_TOLERANCE_S:
            await self.set(round(ahead_s))
        elif self._report is None:
            self._publish(ClockReport())

    async def set(self, known_ahead_s: int = 0) -> None:
        """Set the clock until it is right, or report that it is not.

        `known_ahead_s` is what the guest has reported.
        """
        cost_s, was_ahead_s, ahead_s = 0.0, 0, float(known_ahead_s)
        line = "date +%s; sudo -n date -u -s @{:.0f} >/dev/null; date +%s"
        try:
            for attempt in range(_ATTEMPTS):
                began_s = time.time()
                answer = await self._connection.run(line.format(began_s + cost_s))
                ended_s = time.time()
                before, after = answer.output.split()
                if not attempt:
                    was_ahead_s = _beyond_tolerance(int(before) + 0.5 - (began_s + ended_s) / 2)
                ahead_s = int(after) + 0.5 - ended_s
                if abs(ahead_s) <= TOLERANCE_S:
                    self._publish_right(was_ahead_s)
                    return
                cost_s = (ended_s - began_s) / 2
            problem = "it cannot be set"
        except (SshError, ValueError) as error:
            problem = f"it cannot be set: {error}"
        self._publish(self._changed(ahead_s=round(ahead_s), problem=problem))

    def _publish_right(self, was_ahead_s: int) -> None:
        """Report that the clock is right, and whether it was wrong before."""
        changed = self._changed(ahead_s=0, problem="")
        if was_ahead_s:
            changed = replace(changed, set_at=now("seconds"), was_ahead_s=was_ahead_s)
            self._context.warn(f"the guest's clock was {offset_text(was_ahead_s)} and is set")
        self._publish(changed)

    def _changed(self, *, ahead_s: int, problem: str) -> ClockReport:
        return replace(self._report or ClockReport(), ahead_s=ahead_s, problem=problem)

    def _publish(self, report: ClockReport) -> None:
        if report == self._report:
            return
        self._report = report
        if report.problem:
            off = f" is {offset_text(report.ahead_s)}" if report.ahead_s else ""
            self._context.warn(f"the guest's clock{off}: {report.problem}")
        self._context.clock(report)

    def close(self) -> None:
        """Stop setting the clock."""
        if self._task is not None:
            self._task.cancel()


def _beyond_tolerance(ahead_s: float) -> int:
    return round(ahead_s) if abs(ahead_s) > TOLERANCE_S else 0
