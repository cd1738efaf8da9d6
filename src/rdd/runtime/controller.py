# SPDX-License-Identifier: Apache-2.0
"""Controllers: the declaration and the workers.

`Controller` is a declaration, a plain value that a `Manager` runs. The manager creates the
reconciler from a `Context` once it owns the controller. One worker is the default: most
controllers have a handful of objects, and sequential work is easiest to reason about. With
more workers, several keys are reconciled concurrently, but never one key twice.

An exception of a reconciler affects only its key: it is logged with the key, counted, and
the key is retried with exponential backoff.
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
    """The dependencies of a reconciler."""

    name: str
    """Name of the controller."""
    client: Client
    """The server rejects its writes once another process owns the controller."""
    cache: Cache
    events: EventRecorder
    enqueue: Callable[[QueueKey], None]
    """Queue a key for a reason other than an object: a process has exited, a timer is due."""
    clock: Callable[[], float] = time.time
    metrics: Metrics = field(default_factory=Metrics)
    """Those of the manager."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The declaration of a controller."""

    name: str
    """Name of the Lease, and in logs and metrics."""
    reconciler: Callable[[Context], Reconciler]
    """Factory of the reconciler; usually its class."""
    sources: Sequence[Source] = ()
    """Watched resources; see rdd.runtime.sources."""
    definitions: Sequence[Object] = ()
    """CustomResourceDefinitions to install."""
    webhooks: Sequence[Webhook] | Callable[[Context], Sequence[Webhook]] = ()
    """Admission rules (see rdd.runtime.admission), or their factory if handlers need a Context."""
    workers: int = 1
    """Number of keys that are reconciled concurrently."""
    passthroughs: Mapping[str, Handler] | Callable[[Context], Mapping[str, Handler]] = field(
        default_factory=dict
    )
    """Endpoints by name (see rdd.runtime.passthrough), or their factory."""

    def passthroughs_with(self, context: Context) -> Mapping[str, Handler]:
        return self.passthroughs(context) if callable(self.passthroughs) else self.passthroughs

    def webhooks_with(self, context: Context) -> tuple[Webhook, ...]:
        made = self.webhooks(context) if callable(self.webhooks) else self.webhooks
        return tuple(made)


class Workers:
    """The queue and the workers of one controller while this process owns it."""

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
        self.context = Context(
            controller.name, client, cache, self.events, self.queue.add, clock, self._metrics
        )

    async def wait_for_sync(self) -> None:
        """Return when all watched resources have been listed."""
        for _, informer in self._sources:
            await informer.synced.wait()

    async def run(
        self,
        started: Callable[[], None] = lambda: None,
        *,
        begun: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Reconcile keys until cancelled or drained. MUST NOT be called before the caches sync.

        `begun` is awaited after the startup hook of the reconciler, before the first key.
        """
        reconciler = self._controller.reconciler(self.context)
        if isinstance(reconciler, Begins):
            await self._begin(reconciler)
        if begun is not None:
            await begun()
        unsubscribe = [
            informer.add_handler(self._handler(source)) for source, informer in self._sources
        ]
        try:
            async with asyncio.TaskGroup() as group:
                background = [group.create_task(self.events.run(), name=f"rdd-events {self._name}")]
                if isinstance(reconciler, Runs):
                    run = group.create_task(reconciler.run(), name=f"rdd-run {self._name}")
                    background.append(run)
                workers = [
                    group.create_task(self._work(reconciler), name=f"rdd-worker {self._name} {i}")
                    for i in range(self._controller.workers)
                ]
                started()
                await asyncio.gather(*workers)
                if isinstance(reconciler, Drains):
                    await reconciler.drain()
                await self.events.flush()
                for task in background:
                    task.cancel()
        finally:
            for stop in unsubscribe:
                stop()
            self.queue.shut_down()

    async def _begin(self, reconciler: Begins) -> None:
        try:
            await reconciler.begin()
        except (errors.ApiError, Unreachable) as error:
            log.warning("%s: startup hook failed: %s", self._name, error_text(error))

    async def drain(self) -> None:
        """Wait for the keys in progress; `run` then returns."""
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
            # A reconciler that never suspends must not starve the event loop.
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
        message = error_text(error)
        if isinstance(error, TerminalError):
            self._metrics.terminal_errors.add(name)
            log.error("%s: %s: %s (not retried)", name, key, message)
            self.queue.forget(key)
            return "error"
        if isinstance(error, errors.Conflict) or self._reported.get(key) == message:
            log.debug("%s: %s: %s", name, key, message)
        elif is_server_error(error):
            log.warning("%s: %s: %s", name, key, message)
        else:
            self._metrics.reconcile_panics.add(name)
            log.error("%s: reconciling %s failed", name, key, exc_info=error)
        self._reported[key] = message
        if not (isinstance(error, errors.ApiError) and is_stale_owner(error)):
            self.queue.add_rate_limited(key)
        return "error"


def is_server_error(error: BaseException) -> bool:
    """Return whether an error comes from the server or the connection, so a retry may succeed."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_server_error, error.exceptions))
    return isinstance(error, errors.ApiError | Unreachable)


def error_text(error: BaseException) -> str:
    """Return a readable message; for an exception group, the messages of all its members."""
    if isinstance(error, BaseExceptionGroup):
        each = "; ".join(map(error_text, error.exceptions))
        is_empty = error.message == "unhandled errors in a TaskGroup"
        return each if is_empty else f"{error.message}: {each}"
    return str(error) or type(error).__name__


def _informer(cache: Cache, source: Source) -> Informer:
    return cache.informer(
        source.resource,
        namespace=source.namespace,
        label_selector=source.label_selector,
        field_selector=source.field_selector,
        metadata_only=source.metadata_only,
    )
