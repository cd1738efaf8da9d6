# SPDX-License-Identifier: Apache-2.0
"""Select and run the built-in controllers.

    selected = select(flag)                       # names, or UnknownControllers
    controllers = BuiltinControllers(client, selected, root_ca=pem)
    await controllers.start()                     # returns when their caches have synced
    …
    await controllers.stop()                      # before the server is closed

`selection` has the grammar of `--controllers`: names separated by commas, `*` for all, `-name`
to exclude one, in any order. A selection that is empty or only excludes selects nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from typing import Protocol

from rdd.client import Client
from rdd.controllers.builtin.clusterrole_aggregation import ClusterRoleAggregationController
from rdd.controllers.builtin.garbage_collector import GarbageCollector
from rdd.controllers.builtin.namespace import NamespaceController
from rdd.controllers.builtin.root_ca import RootCaController
from rdd.controllers.builtin.serviceaccount import ServiceAccountController

log = logging.getLogger("rdd.controllers.builtin")

RESOURCE_QUOTA = "resourcequota"
"""Selected as the others are; it runs inside the API server, which counts exactly."""
NAMES = (
    *("namespace", "gc", "serviceaccount", "root-ca", "clusterrole-aggregation"),
    RESOURCE_QUOTA,
)
"""All built-in controllers, in start order."""

STOP_TIMEOUT_S = 5.0


class UnknownControllers(ValueError):
    """A selection contains unknown names; the text lists the valid ones."""


def select(selection: str) -> tuple[str, ...]:
    """Return the names that a selection selects, in start order."""
    items = [item.strip() for item in selection.split(",")]
    excluded = {item[1:].strip() for item in items if item.startswith("-")}
    included = {item for item in items if item and not item.startswith("-")}
    unknown = sorted((included | excluded) - {"*", *NAMES})
    if unknown:
        raise UnknownControllers(
            f"unknown built-in controllers: {', '.join(unknown)}; "
            f"valid are {', '.join(NAMES)} and *"
        )
    if "*" in excluded:
        return ()
    return tuple(n for n in NAMES if ("*" in included or n in included) and n not in excluded)


class _Queue(Protocol):
    async def drain(self) -> None: ...


class BuiltinController(Protocol):
    """The interface of a built-in controller."""

    @property
    def name(self) -> str:
        """The name in selections."""
        ...

    @property
    def synced(self) -> asyncio.Event:
        """Set when its caches have synced."""
        ...

    @property
    def queue(self) -> _Queue:
        """Drained before the controller is stopped."""
        ...

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class BuiltinControllers:
    """Runs the selected controllers in the current event loop.

    `root_ca` is the PEM that `root-ca` publishes; without it that controller is skipped.
    `on_failure` is called when a controller fails.
    """

    def __init__(
        self,
        client: Client,
        names: Collection[str] = NAMES,
        *,
        root_ca: str = "",
        clock: Callable[[], float] = time.time,
        on_failure: Callable[[BaseException], None] | None = None,
    ) -> None:
        makers: dict[str, Callable[[], BuiltinController]] = {
            "namespace": lambda: NamespaceController(client, clock=clock),
            "gc": lambda: GarbageCollector(client, clock=clock),
            "serviceaccount": lambda: ServiceAccountController(client),
            "root-ca": lambda: RootCaController(client, root_ca),
            "clusterrole-aggregation": lambda: ClusterRoleAggregationController(client),
        }
        self.controllers = [
            make()
            for name, make in makers.items()
            if name in names and (name != "root-ca" or root_ca)
        ]
        self._on_failure = on_failure
        self._task: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether all controllers run and have synced."""
        return all(c.synced.is_set() for c in self.controllers) and not (
            self._task is not None and self._task.done()
        )

    async def start(self) -> None:
        """Start all controllers; return when they have synced. Raises if one fails before."""
        if not self.controllers:
            return
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name="rdd-builtin-controllers"
        )
        self._task.add_done_callback(self._ended)
        ready = asyncio.gather(*(c.synced.wait() for c in self.controllers))
        await asyncio.wait((self._task, ready), return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            ready.cancel()
            await self._task

    async def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Drain the queues within the timeout, then stop all controllers."""
        task, self._task = self._task, None
        if task is None:
            return
        draining = asyncio.gather(*(c.queue.drain() for c in self.controllers))
        await asyncio.wait((draining, task), timeout=timeout_s, return_when="FIRST_COMPLETED")
        draining.cancel()
        task.cancel()
        await asyncio.gather(draining, task, return_exceptions=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for controller in self.controllers:
                group.create_task(controller.run(), name=f"rdd-{controller.name}")

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            return
        error = task.exception()
        assert error is not None
        log.error("the built-in controllers have failed", exc_info=error)
        if self._on_failure is not None:
            self._on_failure(error)
