# SPDX-License-Identifier: Apache-2.0
"""A controller: what it watches, what it brings, and its workers.

`Controller` is a declaration, a plain value; a `Manager` gives it a life. Its
reconciler is made when the manager knows that it owns the controller, from a
`Context` with everything it may use. One worker is the default: most
controllers have a handful of objects, and one at a time is easiest to reason
about. With more, two keys are worked on at once, never one key twice.

Whatever a reconciler raises stays with its key: it is logged with it, counted,
and tried again later; other keys go on.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rdd.api import errors
from rdd.api.types import Object
from rdd.client import Client, Unreachable
from rdd.runtime.admission import Webhook
from rdd.runtime.cache import Cache
from rdd.runtime.events import EventRecorder
from rdd.runtime.finalizers import is_stale_owner
from rdd.runtime.informer import Change, Informer
from rdd.runtime.metrics import Metrics
from rdd.runtime.passthrough import Handler
from rdd.runtime.sources import Source
from rdd.runtime.types import Begins, Drains, QueueKey, Reconciler, Result, Runs, TerminalError
from rdd.runtime.workqueue import Drained, WorkQueue

log = logging.getLogger("rdd.runtime")


@dataclass(frozen=True, slots=True)
class Context:
    """What a reconciler works with."""

    name: str
    """Of the controller."""
    client: Client
    """Its writes are refused once another process owns the controller."""
    cache: Cache
    events: EventRecorder
    enqueue: Callable[[QueueKey], None]
    """Have a key looked at for a reason that is no object: a process ended, a timer is due."""
    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller, declared."""

    name: str
    """Of its Lease, in logs and metrics."""
    reconciler: Callable[[Context], Reconciler]
    """Makes the reconciler; usually its class."""
    sources: Sequence[Source] = ()
    """What is watched; see rdd.runtime.sources."""
    definitions: Sequence[Object] = ()
    """CustomResourceDefinitions to install."""
    webhooks: Sequence[Webhook] | Callable[[Context], Sequence[Webhook]] = ()
    """Admission rules (see rdd.runtime.admission), or what makes them if handlers read."""
    workers: int = 1
    """How many keys are worked on at the same time."""
    passthroughs: Mapping[str, Handler] | Callable[[Context], Mapping[str, Handler]] = field(
        default_factory=dict
    )
    """Endpoints by name (see rdd.runtime.passthrough), or what makes them if handlers read."""

    def passthroughs_with(self, context: Context) -> Mapping[str, Handler]:
        """Its endpoints."""
        return self.passthroughs(context) if callable(self.passthroughs) else self.passthroughs

    def webhooks_with(self, context: Context) -> tuple[Webhook, ...]:
        """Its admission rules."""
        made = self.webhooks(context) if callable(self.webhooks) else self.webhooks
        return tuple(made)


class Workers:
    """The queue and the workers of one controller, for as long as it is owned here."""

    def __init__(
        self,
        controller: Controller,
        client: Client,
        cache: Cache,
        *,
        instance: str = "",
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._name = controller.name
        self._metrics = metrics or Metrics()
        self.queue: WorkQueue[QueueKey] = WorkQueue(
            controller.name, refill=self._refill, metrics=self._metrics
        )
        self.events = EventRecorder(
            client, controller.name, instance=instance, clock=clock, metrics=self._metrics
        )
        self._sources = [(source, _informer(cache, source)) for source in controller.sources]
        self._reported: dict[QueueKey, str] = {}
        self.context = Context(controller.name, client, cache, self.events, self.queue.add, clock)

    async def wait_for_sync(self) -> None:
        """Return when everything the controller watches has been seen."""
        for _, informer in self._sources:
            await informer.synced.wait()

    async def run(
        self,
        started: Callable[[], None] = lambda: None,
        *,
        begun: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Work until cancelled or drained. MUST NOT be called before the caches have synced.

        `begun` is awaited when the reconciler has begun, before it looks at the first key.
        """
        reconciler = self._controller.reconciler(self.context)
        if isinstance(reconciler, Begins):
            await self._begin(reconciler)
        if begun is not None:
            await begun()
        leave = [informer.add_handler(self._handler(source)) for source, informer in self._sources]
        try:
            async with asyncio.TaskGroup() as group:
                beside = [group.create_task(self.events.run(), name=f"rdd-events {self._name}")]
                if isinstance(reconciler, Runs):
                    run = group.create_task(reconciler.run(), name=f"rdd-run {self._name}")
                    beside.append(run)
                workers = [
                    group.create_task(self._work(reconciler), name=f"rdd-worker {self._name} {i}")
                    for i in range(self._controller.workers)
                ]
                started()
                await asyncio.gather(*workers)
                if isinstance(reconciler, Drains):
                    await reconciler.drain()
                await self.events.flush()
                for task in beside:
                    task.cancel()
        finally:
            for stop in leave:
                stop()
            self.queue.shut()

    async def _begin(self, reconciler: Begins) -> None:
        try:
            await reconciler.begin()
        except (errors.ApiError, Unreachable) as error:
            log.warning("%s: what was said before stays for now: %s", self._name, told(error))

    async def drain(self) -> None:
        """Let the keys that are being worked on finish; `run` then returns."""
        await self.queue.drain()

    def _handler(self, source: Source) -> Callable[[Change], None]:
        def handle(change: Change) -> None:
            for key in source.keys(change):
                self.queue.add(key)

        return handle

    def _refill(self) -> None:
        for source, informer in self._sources:
            for obj in informer.list():
                for key in source.to_keys(obj):
                    self.queue.add(key)

    async def _work(self, reconciler: Reconciler) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                key = await self.queue.get()
            except Drained:
                return
            # A reconciler whose reads and writes never wait must not keep the loop to itself.
            await asyncio.sleep(0)
            begun = loop.time()
            try:
                outcome = self._settle(key, await reconciler.reconcile(key))
            except Exception as error:
                outcome = self._fail(key, error)
            finally:
                self.queue.done(key)
            self._metrics.reconciles.add(self._name, outcome)
            self._metrics.reconcile_time.observe(loop.time() - begun, self._name)

    def _settle(self, key: QueueKey, result: Result) -> str:
        self._reported.pop(key, None)
        self.queue.forget(key)
        if result.requeue_after_s is None:
            return "success"
        self.queue.add_after(key, result.requeue_after_s)
        return "requeue_after"

    def _fail(self, key: QueueKey, error: Exception) -> str:
        name = self._name
        self._metrics.reconcile_errors.add(name)
        message = told(error)
        if isinstance(error, TerminalError):
            self._metrics.terminal_errors.add(name)
            log.error("%s: %s: %s (not tried again)", name, key, message)
            self.queue.forget(key)
            return "error"
        if isinstance(error, errors.Conflict) or self._reported.get(key) == message:
            log.debug("%s: %s: %s", name, key, message)
        elif is_of_server(error):
            log.warning("%s: %s: %s", name, key, message)
        else:
            self._metrics.reconcile_panics.add(name)
            log.error("%s: reconciling %s failed", name, key, exc_info=error)
        self._reported[key] = message
        if not (isinstance(error, errors.ApiError) and is_stale_owner(error)):
            self.queue.add_rate_limited(key)
        return "error"


def is_of_server(error: BaseException) -> bool:
    """Whether an error is the server's, and may be gone the next time."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_of_server, error.exceptions))
    return isinstance(error, errors.ApiError | Unreachable)


def told(error: BaseException) -> str:
    """What a person wants to read; of several errors at once, each of them."""
    if isinstance(error, BaseExceptionGroup):
        each = "; ".join(map(told, error.exceptions))
        is_empty = error.message == "unhandled errors in a TaskGroup"
        return each if is_empty else f"{error.message}: {each}"
    return str(error) or type(error).__name__


def _informer(cache: Cache, source: Source) -> Informer:
    return cache.informer(
        source.resource,
        namespace=source.namespace,
        label_selector=source.label_selector,
        metadata_only=source.metadata_only,
    )
