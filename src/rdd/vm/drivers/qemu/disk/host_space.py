# SPDX-License-Identifier: Apache-2.0
"""A guest whose disk cannot be written because this computer's file system is full.

qemu stops the vCPUs at such a write instead of reporting an error to the guest, whose file
system would become read-only. It never continues by itself: here it is, as soon as there is space.
"""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from rdd.base.sizes import binary
from rdd.host.errors import HostError
from rdd.vm.drivers.qemu.qmp import Qmp, QmpEvent

ENOUGH_BYTES = 64 << 20
_POLL_S = 2.0
_STOPPED = "io-error"  # the state of qemu; a paused machine has another one


class HostSpace:
    """Continues a guest that was stopped by a full disk of this computer."""

    def __init__(
        self,
        directory: Path,
        *,
        qmp: Callable[[], Qmp | None],
        continued: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._qmp = qmp
        self._continued = continued
        self._warn = warn
        self._task: asyncio.Task[None] | None = None

    def on_event(self, event: QmpEvent) -> None:
        """Take an event of qemu."""
        if event["event"] == "BLOCK_IO_ERROR" and event.get("data", {}).get("action") == "stop":
            self.check()

    def check(self) -> None:
        """Continue the guest if it is stopped; in the background."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._continue(), name="host space")

    async def _continue(self) -> None:
        is_reported = False
        with suppress(HostError, OSError):
            while (qmp := self._qmp()) is not None:
                if (await qmp.execute("query-status")).get("status") != _STOPPED:
                    return
                free_bytes = shutil.disk_usage(self._directory).free
                if free_bytes >= ENOUGH_BYTES:
                    await qmp.execute("cont")
                    self._continued()
                    self._warn("the guest continues after its disk could not be written")
                elif not is_reported:
                    is_reported = True
                    self._warn(
                        f'only {binary(free_bytes)} are free at "{self._directory}": the guest '
                        f"stands still until {binary(ENOUGH_BYTES)} are free"
                    )
                await asyncio.sleep(_POLL_S)

    def close(self) -> None:
        """Stop waiting for space."""
        if self._task is not None:
            self._task.cancel()
