# SPDX-License-Identifier: Apache-2.0
"""A manager: several controllers in one process, from start to stop.

    manager = Manager("app", client, [demo(), app()], ownership=Ownership(client, "app"))
    await manager.start()         # returns when everything it owns is at work
    …
    await manager.stop()          # drains, then gives its leases back

Each controller goes through the same steps, and none is taken before the one
above it is complete:

    owned           its Lease is ours; otherwise it waits (or the start fails)
    definitions     its kinds are served
    synced          everything it watches has been seen
    admission       its handlers answer, then the server is told to ask them
    begun           it has taken back what a process before it said; so have the others
                    that start with it
    working         its reconciler runs, its endpoints are offered

A controller whose ownership is lost is stopped at once, in the middle of what
it does, and waits for its turn again; the others are not affected.
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
from rdd.runtime.controller import Controller, Workers, is_of_server, told
from rdd.runtime.definitions import install_definitions
from rdd.runtime.endpoints import Endpoints
from rdd.runtime.metrics import Metrics
from rdd.runtime.ownership import Claim, HeldByOther, Ownership
from rdd.runtime.passthrough import Handler, PassthroughHost
from rdd.runtime.webhooks import Host, apply_configurations

log = logging.getLogger("rdd.runtime")

DRAIN_S = 10.0
_WAITING = "waiting for its turn"


class Stopped(Exception):
    """A manager was told to stop before it had started."""


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """What can be chosen about a manager."""

    if_held: Literal["wait", "fail"] = "wait"
    """A controller that another process owns: wait for it, or fail to start."""
    drain_s: float = DRAIN_S
    """How long all controllers together may take to finish what they are at."""
    health_socket: socket.socket | None = None
    """Bound; answers /healthz and /readyz."""
    metrics_socket: socket.socket | None = None
    """Bound; answers /metrics."""
    clock: Callable[[], float] = time.time


class Manager:
    """Runs controllers. `ownership` is None where there can be no other process."""

    def __init__(
        self,
        name: str,
        client: Client,
        controllers: Sequence[Controller],
        *,
        ownership: Ownership | None = None,
        host: Host | None = None,
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
        self._endpoints = Endpoints(self.metrics, self.problem)
        self._states: dict[str, str] = {}
        self._working: dict[str, Workers] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._beginning: set[str] = set()
        self._have_begun = asyncio.Event()
        self._answering: dict[str, tuple[Webhook, ...]] = {}
        self._offered: dict[str, Mapping[str, Handler]] = {}
        self._is_stopping = False
        self._is_drained = False
        self._stopping = asyncio.Lock()
        self.failed: asyncio.Future[BaseException] | None = None
        """Done when a controller ended by itself, which only an error in it can cause."""
        _check(self._controllers, host)

    # -- life

    async def start(self) -> None:
        """Start everything; returns when all controllers that are ours are at work.

        Raises what went wrong, after everything that was started is stopped.
        """
        self.failed = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except BaseException as error:
            await self.stop()
            cause = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]  # what a person wants to read
            if cause is error:
                raise
            raise cause from error

    async def drain(self) -> None:
        """Finish what is being worked on, within the budget, and begin nothing new.

        Admission goes on answering and the leases are kept: `stop` must follow.
        """
        self._is_stopping = True
        self._have_begun.set()  # nobody waits for those that will not come
        async with self._stopping:
            if not self._is_drained:
                self._is_drained = True
                await self._drain()

    async def stop(self) -> None:
        """Finish what is being worked on, within the budget, and give the leases back.

        May be called at any time, also while `start` runs in another task, and
        more than once.
        """
        await self.drain()
        async with self._stopping:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._tasks.clear()
            self._withdraw(*self._answering)
            if self.ownership is not None:
                await self.ownership.stop()
            if self._host is not None:
                await self._host.stop()
            if self._passthrough is not None:
                await self._passthrough.stop()
            await self.cache.stop()
            await self._endpoints.stop()

    async def _drain(self) -> None:
        """Let all controllers finish what they are at, within one budget."""
        working = dict(self._working)
        names = {_task_name(name) for name in working}
        ending = [task for task in self._tasks if task.get_name() in names]
        try:
            async with asyncio.timeout(self.options.drain_s):
                await asyncio.gather(*(workers.drain() for workers in working.values()))
                # Their last events are written, then they end by themselves.
                await asyncio.gather(*ending, return_exceptions=True)
        except TimeoutError:
            busy = [name for name, workers in working.items() if not workers.queue.is_idle]
            log.warning("manager %s: stopped in the middle of work: %s", self.name, ", ".join(busy))

    def problem(self) -> str:
        """Why the manager is not ready; empty if it is. Controllers of others do not count."""
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
        """The controllers that are at work here."""
        return tuple(c.name for c in self._controllers if self._states.get(c.name) == "working")

    @property
    def webhooks(self) -> tuple[Webhook, ...]:
        """The admission rules that are answered here."""
        return tuple(webhook for webhooks in self._answering.values() for webhook in webhooks)

    @property
    def passthroughs(self) -> dict[str, tuple[str, ...]]:
        """The endpoints that are offered here, by controller."""
        return {name: tuple(handlers) for name, handlers in self._offered.items()}

    # -- starting

    async def _start(self) -> None:
        options = self.options
        if options.health_socket or options.metrics_socket:
            await self._endpoints.start(
                health=options.health_socket, metrics=options.metrics_socket
            )
        claims = await self._claim_all()
        self._go_on()
        owned = [c for c in self._controllers if c.name in claims or self.ownership is None]
        async with asyncio.TaskGroup() as group:
            for controller in owned:
                client = self._client_of(claims.get(controller.name))
                group.create_task(
                    install_definitions(client, controller.definitions),
                    name=f"rdd-definitions {controller.name}",
                )
        self._go_on()
        self.cache.start()
        if self._host is not None:
            await self._host.start(self._reviewer)
            self._go_on()
        if self._passthrough is not None:
            for controller in self._controllers:
                if controller.passthroughs:
                    self._passthrough.expect(controller.name)
            await self._passthrough.start()
            self._go_on()
        ready: list[asyncio.Future[None]] = []
        self._beginning = {controller.name for controller in owned}
        for controller in self._controllers:
            started = asyncio.get_running_loop().create_future()
            started.add_done_callback(lambda done: done.cancelled() or done.exception())
            task = asyncio.get_running_loop().create_task(
                self._live(controller, claims.get(controller.name), started),
                name=_task_name(controller.name),
            )
            self._tasks.append(task)
            if controller in owned:
                ready.append(started)
            else:
                self._states[controller.name] = _WAITING
        await asyncio.gather(*ready)
        self._go_on()

    def _go_on(self) -> None:
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

    async def _live(
        self, controller: Controller, claim: Claim | None, started: "asyncio.Future[None]"
    ) -> None:
        """Run a controller whenever it is ours."""
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
                        or not is_of_server(error)
                    ):
                        raise
                    log.warning("controller %s could not start: %s", name, told(error))
                    await self._give_back(claim)
                    await asyncio.sleep(backoff.next_s())
                if claim is None or not claim.lost.is_set():
                    return
                claim = None
                self._has_begun(name)
                if not started.done():
                    started.set_result(None)  # lost before it worked: a start does not wait for it
        except Exception as error:
            self._states[name] = "broken"
            log.error("controller %s has ended", name, exc_info=error)
            if is_first and not started.done():
                started.set_exception(error)
            elif self.failed is not None and not self.failed.done():
                self.failed.set_result(error)
        finally:
            self._has_begun(name)
            if not started.done():
                started.set_exception(Stopped(f"controller {name} was stopped while it started"))

    async def _give_back(self, claim: Claim) -> None:
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
                self._answering[name] = webhooks
                for webhook in webhooks:
                    self._reviewer.add(webhook)
                    host.add(webhook)
                await apply_configurations(
                    client, webhooks, url_prefix=host.url_prefix, ca_bundle=host.ca_bundle
                )
            self._working[name] = workers
            self._offer(name, controller.passthroughs_with(workers.context))
            await workers.run(begin, begun=begun)
        finally:
            self._offer(name, {})
            self._working.pop(name, None)
            self._states[name] = "stopped"
            if not self._is_stopping:
                self._withdraw(name)  # at a stop, others may still write what it has rules for

    def _has_begun(self, name: str) -> None:
        """A controller holds up the others that start with it no longer."""
        self._beginning.discard(name)
        if not self._beginning:
            self._have_begun.set()

    def _offer(self, name: str, handlers: Mapping[str, Handler]) -> None:
        """Have exactly these endpoints of a controller answered."""
        host, before = self._passthrough, self._offered.pop(name, {})
        if host is None:
            return
        for endpoint, handler in before.items():
            host.remove(name, endpoint, handler)
        if handlers:
            self._offered[name] = handlers
        for endpoint, handler in handlers.items():
            host.add(name, endpoint, handler)

    def _withdraw(self, *names: str) -> None:
        """Have the admission rules of controllers answered no more."""
        for name in names:
            for webhook in self._answering.pop(name, ()):
                assert self._host is not None
                self._host.remove(webhook)
                self._reviewer.remove(webhook)

    def _client_of(self, claim: Claim | None) -> Client:
        if claim is None or self.ownership is None:
            return self._client
        return self.ownership.client_for(claim)


def _task_name(controller: str) -> str:
    return f"rdd-controller {controller}"


def _check(controllers: Sequence[Controller], host: Host | None) -> None:
    names = [c.name for c in controllers]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"controllers given twice: {', '.join(twice)}")
    homeless = [c.name for c in controllers if c.webhooks]
    if homeless and host is None:
        raise ValueError(f"controllers with webhooks need a host: {', '.join(homeless)}")
