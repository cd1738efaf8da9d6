# SPDX-License-Identifier: Apache-2.0
"""A manager: several controllers in one process, from start to stop.

    manager = Manager("app", client, [demo(), app()], ownership=Ownership(client, "app"))
    await manager.start()         # returns when all owned controllers work
    …
    await manager.stop()          # drains, then releases the leases

Each controller goes through these states, in this order:

    owned           this process holds its Lease; otherwise it waits (or the start fails)
    definitions     its kinds are served
    synced          all watched resources have been listed
    admission       its handlers are reachable, then their configurations are applied
    begun           its startup hook has run, and those of all controllers that start with it
    working         its reconciler runs, its endpoints are registered

A controller that loses its ownership is cancelled at once and waits for the Lease again; the
other controllers are not affected.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rdd.client import Client
from rdd.client.listwatch import make_backoff
from rdd.runtime.admission import Reviewer, Webhook
from rdd.runtime.cache import Cache
from rdd.runtime.controller import Controller, Workers, error_text, is_server_error
from rdd.runtime.definitions import install_definitions
from rdd.runtime.endpoints import ManagerEndpoints
from rdd.runtime.metrics import Metrics
from rdd.runtime.metrics_access import MetricsAccess
from rdd.runtime.ownership import Claim, HeldByOther, Ownership
from rdd.runtime.passthrough import Handler, PassthroughHost
from rdd.runtime.webhooks import WebhookHost, apply_configurations

log = logging.getLogger("rdd.runtime")

DRAIN_S = 10.0
_WAITING = "waiting for its lease"


class Stopped(Exception):
    """A manager was stopped before it had started."""


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """Options of a manager."""

    if_held: Literal["wait", "fail"] = "wait"
    """If another process owns a controller: wait for it, or fail to start."""
    drain_s: float = DRAIN_S
    """Timeout for draining all controllers."""
    health_socket: socket.socket | None = None
    """Bound; serves /healthz and /readyz."""
    metrics_socket: socket.socket | None = None
    """Bound; serves /metrics to tokens that RBAC grants it."""
    has_open_metrics: bool = False
    """Whether /metrics needs no token."""
    clock: Callable[[], float] = time.time


class Manager:
    """Runs controllers. `ownership` is None if no other process can run them."""

    def __init__(
        self,
        name: str,
        client: Client,
        controllers: Sequence[Controller],
        *,
        ownership: Ownership | None = None,
        host: WebhookHost | None = None,
        passthrough: PassthroughHost | None = None,
        options: ManagerOptions | None = None,
    ) -> None:
        self.name = name
        self.options = options or ManagerOptions()
        self.metrics = Metrics()
        self.cache = Cache(client, metrics=self.metrics)
        self.ownership = ownership
        self._client = client
        self._controllers = tuple(controllers)
        self._host = host
        self._passthrough = passthrough
        self._reviewer = Reviewer()
        access = None if self.options.has_open_metrics else MetricsAccess(client)
        self._endpoints = ManagerEndpoints(self.metrics, self.problem, access)
        self._states: dict[str, str] = {}
        self._working: dict[str, Workers] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._beginning: set[str] = set()
        self._have_begun = asyncio.Event()
        self._active_webhooks: dict[str, tuple[Webhook, ...]] = {}
        self._active_passthroughs: dict[str, Mapping[str, Handler]] = {}
        self._is_stopping = False
        self._is_drained = False
        self._stopping = asyncio.Lock()
        self.failed: asyncio.Future[BaseException] | None = None
        """Set when a controller has failed."""
        _check(self._controllers, host)

    # -- lifecycle

    async def start(self) -> None:
        """Start all controllers; return when those that this process owns work.

        On an error, stop everything that was started, then raise it.
        """
        self.failed = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except BaseException as error:
            await self.stop()
            cause = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]  # more readable than the group
            if cause is error:
                raise
            raise cause from error

    async def drain(self) -> None:
        """Finish the keys in progress, within the timeout, and start no others.

        Admission stays available and the leases are kept: `stop` must follow.
        """
        self._is_stopping = True
        self._have_begun.set()  # controllers that have not begun will not begin
        async with self._stopping:
            if not self._is_drained:
                self._is_drained = True
                await self._drain()

    async def stop(self) -> None:
        """Drain, then release the leases and close everything.

        Idempotent; may be called at any time, also while `start` runs in another task.
        """
        await self.drain()
        async with self._stopping:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks.clear()
            self._remove_webhooks(*self._active_webhooks)
            if self.ownership is not None:
                await self.ownership.stop()
            if self._host is not None:
                await self._host.stop()
            if self._passthrough is not None:
                await self._passthrough.stop()
            await self.cache.stop()
            await self._endpoints.stop()

    async def _drain(self) -> None:
        working = dict(self._working)
        names = {_task_name(name) for name in working}
        ending = [task for task in self._tasks if task.get_name() in names]
        try:
            async with asyncio.timeout(self.options.drain_s):
                await asyncio.gather(*(workers.drain() for workers in working.values()))
                # The tasks end after they have written their last events.
                await asyncio.gather(*ending, return_exceptions=True)
        except TimeoutError:
            busy = [name for name, workers in working.items() if not workers.queue.is_idle]
            log.warning("manager %s: drain timed out, still busy: %s", self.name, ", ".join(busy))

    def problem(self) -> str:
        """Return why the manager is not ready; empty if it is.

        Controllers that wait for their lease count as ready.
        """
        if self._is_stopping:
            return "the manager is stopping"
        missing = [
            f"{c.name} is {self._states.get(c.name, 'starting')}"
            for c in self._controllers
            if self._states.get(c.name, "starting") not in ("working", _WAITING)
        ]
        return ", ".join(missing)

    @property
    def running(self) -> tuple[str, ...]:
        """Return the controllers that work in this process."""
        return tuple(c.name for c in self._controllers if self._states.get(c.name) == "working")

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """Return the admission rules that this process serves."""
        return tuple(webhook for webhooks in self._active_webhooks.values() for webhook in webhooks)

    @property
    def passthroughs(self) -> dict[str, tuple[str, ...]]:
        """Return the endpoints that this process serves, by controller."""
        return {name: tuple(handlers) for name, handlers in self._active_passthroughs.items()}

    # -- starting

    async def _start(self) -> None:
        options = self.options
        if options.health_socket or options.metrics_socket:
            await self._endpoints.start(
                health=options.health_socket, metrics=options.metrics_socket
            )
        claims = await self._claim_all()
        self._check_stopping()
        owned = [c for c in self._controllers if c.name in claims or self.ownership is None]
        async with asyncio.TaskGroup() as group:
            for controller in owned:
                client = self._client_of(claims.get(controller.name))
                group.create_task(
                    install_definitions(client, controller.definitions),
                    name=f"rdd-definitions {controller.name}",
                )
        self._check_stopping()
        self.cache.start()
        if self._host is not None:
            await self._host.start(self._reviewer)
            self._check_stopping()
        if self._passthrough is not None:
            for controller in self._controllers:
                if controller.passthroughs:
                    self._passthrough.expect(controller.name)
            await self._passthrough.start()
            self._check_stopping()
        ready: list[asyncio.Future[None]] = []
        self._beginning = {controller.name for controller in owned}
        for controller in self._controllers:
            started = asyncio.get_running_loop().create_future()
            started.add_done_callback(lambda done: done.cancelled() or done.exception())
            task = asyncio.get_running_loop().create_task(
                self._run_controller(controller, claims.get(controller.name), started),
                name=_task_name(controller.name),
            )
            self._tasks.append(task)
            if controller in owned:
                ready.append(started)
            else:
                self._states[controller.name] = _WAITING
        await asyncio.gather(*ready)
        self._check_stopping()

    def _check_stopping(self) -> None:
        if self._is_stopping:
            raise Stopped(f"manager {self.name} was stopped while it started")

    async def _claim_all(self) -> dict[str, Claim]:
        if self.ownership is None:
            return {}
        await self.ownership.start()
        claims: dict[str, Claim] = {}
        for controller in self._controllers:
            claim = await self._claim(controller.name)
            if claim is not None:
                claims[controller.name] = claim
        return claims

    async def _claim(self, name: str) -> Claim | None:
        assert self.ownership is not None
        try:
            return await self.ownership.acquire(name)
        except HeldByOther as held:
            if self.options.if_held == "fail":
                raise
            log.info("%s; waiting", held)
            return None

    # -- one controller

    async def _run_controller(
        self, controller: Controller, claim: Claim | None, started: "asyncio.Future[None]"
    ) -> None:
        """Run a controller whenever this process owns it."""
        name = controller.name
        is_first = claim is not None or self.ownership is None
        backoff = make_backoff()
        try:
            while not self._is_stopping:
                try:
                    if claim is None and self.ownership is not None:
                        self._states[name] = _WAITING
                        claim = await self.ownership.wait_for(name)
                        await install_definitions(self._client_of(claim), controller.definitions)
                    await self._run_owned(controller, claim, started)
                except Exception as error:
                    if (
                        claim is None
                        or (is_first and not started.done())
                        or not is_server_error(error)
                    ):
                        raise
                    log.warning("controller %s could not start: %s", name, error_text(error))
                    await self._release(claim)
                    await asyncio.sleep(backoff.next_s())
                if claim is None or not claim.lost.is_set():
                    return
                claim = None
                self._has_begun(name)
                if not started.done():
                    started.set_result(None)  # lost before it worked: start() must not wait for it
        except Exception as error:
            self._states[name] = "broken"
            log.error("controller %s has failed", name, exc_info=error)
            if is_first and not started.done():
                started.set_exception(error)
            elif self.failed is not None and not self.failed.done():
                self.failed.set_result(error)
        finally:
            self._has_begun(name)
            if not started.done():
                started.set_exception(Stopped(f"controller {name} was stopped while it started"))

    async def _release(self, claim: Claim) -> None:
        assert self.ownership is not None
        await self.ownership.release(claim)

    async def _run_owned(
        self, controller: Controller, claim: Claim | None, started: "asyncio.Future[None]"
    ) -> None:
        """Run a controller until it is drained or its claim is lost."""
        loop, name = asyncio.get_running_loop(), controller.name
        work = loop.create_task(self._work(controller, claim, started), name=f"rdd-work {name}")
        tasks: set[asyncio.Task[Any]] = {work}
        if claim is not None:
            tasks.add(loop.create_task(claim.lost.wait(), name=f"rdd-claim {name}"))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(
        self, controller: Controller, claim: Claim | None, started: "asyncio.Future[None]"
    ) -> None:
        name, host = controller.name, self._host
        client = self._client_of(claim)
        instance = self.ownership.identity if self.ownership is not None else self.name
        workers = Workers(
            controller,
            client,
            self.cache,
            instance=instance,
            metrics=self.metrics,
            clock=self.options.clock,
        )
        self._states[name] = "reading what exists"
        await workers.wait_for_sync()
        self._states[name] = "starting admission"
        webhooks = controller.webhooks_with(workers.context)

        async def begun() -> None:
            self._has_begun(name)
            await self._have_begun.wait()

        def begin() -> None:
            self._states[name] = "working"
            if not started.done():
                started.set_result(None)

        try:
            if host is not None:
                self._active_webhooks[name] = webhooks
                for webhook in webhooks:
                    self._reviewer.add(webhook)
                    host.add(webhook)
                await apply_configurations(
                    client, webhooks, url_prefix=host.url_prefix, ca_bundle=host.ca_bundle
                )
            self._working[name] = workers
            self._set_passthroughs(name, controller.passthroughs_with(workers.context))
            await workers.run(begin, begun=begun)
        finally:
            self._set_passthroughs(name, {})
            self._working.pop(name, None)
            self._states[name] = "stopped"
            if not self._is_stopping:
                # During a stop, webhooks stay for the writes of other controllers.
                self._remove_webhooks(name)

    def _has_begun(self, name: str) -> None:
        """Release the controllers that wait for the startup hook of this one."""
        self._beginning.discard(name)
        if not self._beginning:
            self._have_begun.set()

    def _set_passthroughs(self, name: str, handlers: Mapping[str, Handler]) -> None:
        """Serve exactly these endpoints of a controller."""
        host, before = self._passthrough, self._active_passthroughs.pop(name, {})
        if host is None:
            return
        for endpoint, handler in before.items():
            host.remove(name, endpoint, handler)
        if handlers:
            self._active_passthroughs[name] = handlers
        for endpoint, handler in handlers.items():
            host.add(name, endpoint, handler)

    def _remove_webhooks(self, *names: str) -> None:
        for name in names:
            for webhook in self._active_webhooks.pop(name, ()):
                assert self._host is not None
                self._host.remove(webhook)
                self._reviewer.remove(webhook)

    def _client_of(self, claim: Claim | None) -> Client:
        if claim is None or self.ownership is None:
            return self._client
        return self.ownership.client_for(claim)


def _task_name(controller: str) -> str:
    return f"rdd-controller {controller}"


def _check(controllers: Sequence[Controller], host: WebhookHost | None) -> None:
    names = [c.name for c in controllers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"controllers given twice: {', '.join(twice)}")
    with_webhooks = [c.name for c in controllers if c.webhooks]
    if with_webhooks and host is None:
        raise ValueError(f"controllers with webhooks need a host: {', '.join(with_webhooks)}")
