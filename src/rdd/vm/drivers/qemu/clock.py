# SPDX-License-Identifier: Apache-2.0
"""The clock of a guest, which stands still while the guest or this host does.

Three things set it: the loop in the guest reports a difference, the guest was paused, or its
signs of life were interrupted, because this host slept or the process tree was stopped. The
wall clock notices the last one, because the monotonic clock stands still, too, while a host sleeps.

The guest gets the time over ssh, in whole seconds, because small guests cannot set fractions. A
guest that was just paused is slow, so the time is read back and set again.
"""

import asyncio
import time
from collections.abc import Callable

from rdd.vm.drivers.qemu.guest_connection import GuestConnection
from rdd.vm.ssh import SshError

TOLERANCE_S = 1.0
GAP_S = 6.0
"""Signs of life come about every 3 s, of an emulated guest under load every 5 s."""
_ATTEMPTS = 4


class GuestClock:
    """Keeps the clock of one guest at the time of this host."""

    def __init__(self, connection: GuestConnection, *, warn: Callable[[str], None]) -> None:
        self._connection = connection
        self._warn = warn
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

    async def drifted(self, ahead_s: float) -> None:
        """Set a clock that the guest reports to be wrong."""
        self._warn(f"the guest's clock was {ahead_s:+.0f} s off and is set")
        await self.set()

    async def set(self) -> None:
        """Set the clock until it is right, or report that it is not."""
        cost_s, ahead_s = 0.0, 0.0
        try:
            for _ in range(_ATTEMPTS):
                began_s = time.time()
                wanted_s = began_s + cost_s
                line = f"sudo -n date -u -s @{wanted_s:.0f} >/dev/null; date +%s"
                answer = await self._connection.run(line)
                ended_s = time.time()
                ahead_s = int(answer.output) + 0.5 - ended_s
                if abs(ahead_s) <= TOLERANCE_S:
                    return
                cost_s = (ended_s - began_s) / 2
            self._warn(f"the guest's clock is {ahead_s:+.0f} s off and cannot be set")
        except (SshError, ValueError) as error:
            self._warn(f"the guest's clock cannot be set: {error}")

    def close(self) -> None:
        """Stop setting the clock."""
        if self._task is not None:
            self._task.cancel()
