# SPDX-License-Identifier: Apache-2.0
"""Built-in controllers of a shared store: one server runs them, elected by a Lease.

Every server waits for the Lease `rdd-system/controller-builtin`. Its holder runs the controllers
with a client whose writes carry the epoch of the Lease; the server checks it inside the
transaction, so a holder that was paused and replaced changes nothing (`rdd.runtime.fencing`).
A holder that dies is replaced when its heartbeat is older than LEASE_S, one that stops releases
the Lease at once. The clocks of the servers may differ: a heartbeat is old when it has not changed
for that long.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from rdd.client import Client
from rdd.runtime.ownership import Ownership

log = logging.getLogger(__name__)

LEASE = "builtin"
LEASE_S = 4
"""A dead server is replaced within five seconds."""
RENEW_S = 1.0


class Startable(Protocol):
    """Something that runs on one server only."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


class ElectedControllers:
    """Runs controllers while this server holds the Lease."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        make: Callable[[Client], Sequence[Startable]],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._ownership = Ownership(
            client, name, lease_s=LEASE_S, renew_s=RENEW_S, compares_clocks=False
        )
        self._make = make
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Take part in the election; the controllers may start later or never."""
        await self._ownership.start()
        self._task = asyncio.get_running_loop().create_task(self._run(), name="rdd-election")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop the controllers, if they run, and release the Lease."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._ownership.stop()

    async def _run(self) -> None:
        while True:
            claim = await self._ownership.wait_for(LEASE)
            log.info("this server runs the built-in controllers (epoch %d)", claim.epoch)
            parts = self._make(self._ownership.client_for(claim))
            try:
                for part in parts:
                    await part.start()
                await claim.lost.wait()
            finally:
                for part in parts:
                    await part.stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("the election of the built-in controllers failed", exc_info=error)
            self._on_failure(error)
