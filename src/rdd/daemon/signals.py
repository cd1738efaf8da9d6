# SPDX-License-Identifier: Apache-2.0
"""Stop signals of the daemon and of controller programs.

The first SIGINT, SIGTERM or SIGHUP starts an orderly shutdown, the second one ends the process
immediately. During startup there is nothing to drain, so the first signal cancels the task that
starts the process.
"""

import asyncio
import logging
import os
import signal
from typing import Any

from rdd.host.signals import STOP_SIGNALS, accept_signals

log = logging.getLogger("rdd.daemon")


class StopSignal:
    """A request to stop, set by a signal or by the process itself."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._starting: asyncio.Task[Any] | None = None
        self._signals = 0

    def install_handlers(self) -> None:
        """Handle stop signals; until `end_startup` the first one cancels the current task."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._signalled, number)
        self._starting = asyncio.current_task()
        accept_signals()

    def end_startup(self) -> None:
        """Stop cancelling: from now on a signal drains."""
        self._starting = None

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        """StopSignal, as after a signal."""
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()

    def _signalled(self, number: signal.Signals) -> None:
        self._signals += 1
        if self._signals > 1:
            log.warning("second signal (%s): exiting immediately", number.name)
            os._exit(1)
        log.info("%s: stopping", number.name)
        self.set()
        if self._starting is not None:
            self._starting.cancel()
