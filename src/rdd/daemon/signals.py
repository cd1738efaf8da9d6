# SPDX-License-Identifier: Apache-2.0
"""The wish of others that this process ends: the first signal asks, the second one insists.

A process that is still starting has nothing to finish, so the task that starts it is cancelled.
"""

import asyncio
import logging
import os
import signal
from typing import Any

from rdd.host.signals import STOP_SIGNALS, accept_signals

log = logging.getLogger("rdd.daemon")


class StopSignal:
    """Whether to stop; set by signals from `heed` on, or by ourselves."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._starting: asyncio.Task[Any] | None = None
        self._signals = 0

    def install_handlers(self) -> None:
        """Listen to signals. The current task is cancelled by one until `started`."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self._starting = asyncio.current_task()
        accept_signals()

    def end_startup(self) -> None:
        """From now on there is something to finish: nothing is cancelled any more."""
        self._starting = None

    @property
    def is_set(self) -> bool:
        """Whether somebody wants us to stop."""
        return self._event.is_set()

    def set(self) -> None:
        """StopSignal, as after a signal."""
        self._event.set()

    async def wait(self) -> None:
        """Return when somebody wants us to stop."""
        await self._event.wait()

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1:
            log.warning("second signal (%s): ending at once", number.name)
            os._exit(1)
        log.info("%s: stopping", number.name)
        self.set()
        if self._starting is not None:
            self._starting.cancel()
