# SPDX-License-Identifier: Apache-2.0
"""Which process runs a controller: Leases, and when they end.

    rdd-system/controller-<name>   one per controller: the holder, and how often
                                   it has changed hands (the epoch)
    rdd-system/manager-<identity>  one per process: its heartbeat

A controller belongs to its holder for as long as the holder's heartbeat is not
older than `lease_s`. One renewal keeps all controllers of a process, and a
controller's Lease is written only when it changes hands, each time with a new
epoch. Taking one is a write on condition of the version that was read, so of
two processes that try one succeeds.

Everything fails closed: who cannot ask does not start; who cannot renew in time
stops; who sees another holder, or none, stops. A process that could not notice
any of it is kept out by the server (`rdd.runtime.fencing`).

The daemon's own manager (`is_embedded`) lives and dies with the server, so it
has no heartbeat; what an earlier run of the daemon held is free.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rdd.api import errors, names, timestamps
from rdd.api.types import Object
from rdd.client import Client, Unreachable
from rdd.client.listwatch import make_backoff
from rdd.client.resources import LEASES, NAMESPACES
from rdd.runtime.fencing import FencedTransport
from rdd.runtime.heartbeats import end_of, heartbeat_name, shows_life
from rdd.runtime.informer import Change, Informer
from rdd.runtime.types import ObjectKey

log = logging.getLogger("rdd.runtime")

T = TypeVar("T")

LEASE_S = 15
RENEW_S = 5.0
START_S = 30.0
"""How long to go on asking who owns a controller before giving up."""

STOP_S = 5.0
"""How long giving back may take; what is not given back ends by itself."""

_EMBEDDED = "embedded"


class OwnershipError(Exception):
    """A controller cannot be run here; the text says why, in one line."""


class HeldByOther(OwnershipError):
    """Another process runs it."""

    def __init__(self, controller: str, holder: str, *, is_embedded: bool = False) -> None:
        super().__init__(f'controller "{controller}" is run by "{holder}"')
        self.controller = controller
        self.holder = holder
        self.is_embedded = is_embedded
        """It is the daemon."""


class OwnershipUnavailable(OwnershipError):
    """Nobody could say who runs it."""


class Claim:
    """The ownership of one controller during one epoch."""

    def __init__(self, controller: str, holder: str, epoch: int, resource_version: str) -> None:
        self.controller = controller
        self.holder = holder
        self.epoch = epoch
        self.resource_version = resource_version
        self.lost = asyncio.Event()
        """Set when the controller must not be run here any more."""
        self.reason = ""

    @property
    def owner(self) -> str:
        """What writes of this epoch carry."""
        return f"{self.controller}/{self.holder}/{self.epoch}"

    def lose(self, reason: str) -> None:
        """The claim has ended."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()
            log.warning("controller %s is not ours any more: %s", self.controller, reason)


class Ownership:
    """The claims of one process."""

    def __init__(
        self,
        client: Client,
        name: str,
        *,
        is_embedded: bool = False,
        lease_s: int = LEASE_S,
        renew_s: float = RENEW_S,
        start_s: float = START_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self.identity = f"{name}-{secrets.token_hex(4)}"
        """Unique per process and start."""
        self._is_embedded = is_embedded
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._start_s = start_s
        self._clock = clock
        self._claims: dict[str, Claim] = {}
        self._informer = Informer(client, LEASES, namespace=names.SYSTEM_NAMESPACE)
        self._informer.add_handler(self._see)
        self._waiting: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._renewed_s = 0.0
        self.gone = asyncio.Event()
        """Set when the server did not answer a renewal for the time of a lease."""
        self.deposed = asyncio.Event()
        """Set when another process has taken a controller that was ours."""

    # -- life

    async def start(self) -> None:
        """Begin the heartbeat. Raises OwnershipUnavailable if the server does not answer."""
        await self._insist(self._begin)
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._informer.run(), name="rdd-leases"))
        if not self._is_embedded:
            self._tasks.append(loop.create_task(self._beat(), name="rdd-heartbeat"))

    async def stop(self) -> None:
        """Give everything back, so that others can take it at once."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        try:
            async with asyncio.timeout(STOP_S):
                for claim in list(self._claims.values()):
                    await self.release(claim)
                if not self._is_embedded:
                    heartbeat = {"metadata": _metadata(heartbeat_name(self.identity))}
                    await self._attempt_delete(heartbeat)
        except TimeoutError:
            log.warning("leases of %s not released within %g s", self.identity, STOP_S)

    # -- claims

    async def acquire(self, controller: str) -> Claim:
        """Take a controller now. Raises HeldByOther or OwnershipUnavailable."""
        return await self._insist(lambda: self._take(controller))

    async def obstacle(self, controller: str) -> HeldByOther | None:
        """Who keeps a controller from being taken; None if nobody does.

        Only a sign of life counts: a holder that has ended without giving back, or
        hangs, is waited for until its lease is over. Raises OwnershipUnavailable.
        """
        return await self._insist(lambda: self._obstacle(controller))

    async def wait_for(self, controller: str) -> Claim:
        """Take a controller as soon as it is free."""
        changed = self._waiting.setdefault(controller, asyncio.Event())
        while True:
            changed.clear()
            try:
                claim = await self._take(controller)
                del self._waiting[controller]
                return claim
            except HeldByOther as held:
                await self._until_free(held.holder, changed)
            except (errors.ApiError, Unreachable) as error:
                log.debug("lease of %s: %s", controller, error)
                await asyncio.sleep(self._renew_s)

    async def _until_free(self, holder: str, changed: asyncio.Event) -> None:
        """Return when a lease has changed, or its holder has not been heard of in time."""
        while not changed.is_set():
            heartbeat = self._heartbeat(holder)
            # Without a heartbeat the holder is the daemon's manager, or its heartbeat was not
            # seen yet: either way a change will tell.
            pause_s = self._remaining_s(heartbeat) if heartbeat is not None else None
            if pause_s is not None and pause_s <= 0:
                return
            try:
                async with asyncio.timeout(pause_s):
                    await changed.wait()
            except TimeoutError:
                continue  # it may have been renewed since

    async def release(self, claim: Claim) -> None:
        """Give a controller back; failures are logged, the lease then ends by itself."""
        if self._claims.get(claim.controller) is claim:
            del self._claims[claim.controller]
        if claim.lost.is_set():
            return
        claim.lost.set()
        patch = {
            "metadata": {"resourceVersion": claim.resource_version},
            "spec": {"holderIdentity": None, "renewTime": self._now()},
        }
        try:
            await self._client.patch(
                LEASES, _lease_name(claim.controller), patch, namespace=names.SYSTEM_NAMESPACE
            )
        except (errors.ApiError, Unreachable) as error:
            log.warning("lease of %s not released: %s", claim.controller, error)

    def client_for(self, claim: Claim) -> Client:
        """A client whose writes are accepted only while the claim holds."""
        fenced = FencedTransport(self._client.transport, claim.owner, claim.lose)
        return Client(fenced, user_agent=f"rdd-{claim.controller}")

    # -- taking

    async def _obstacle(self, controller: str) -> HeldByOther | None:
        while True:
            try:
                lease = await self._client.get(
                    LEASES, _lease_name(controller), namespace=names.SYSTEM_NAMESPACE
                )
                await self._check_free(controller, lease)
                return None
            except errors.NotFound:
                return None
            except HeldByOther as held:
                if held.is_embedded or await shows_life(
                    self._client, held.holder, clock=self._clock
                ):
                    return held

    async def _insist(self, step: Callable[[], Awaitable[T]]) -> T:
        """The outcome of a step, tried again while the server does not answer properly."""
        backoff = make_backoff()
        problem = "no answer"
        try:
            async with asyncio.timeout(self._start_s):
                while True:
                    try:
                        return await step()
                    except (errors.Unauthorized, errors.Forbidden) as error:
                        if not _is_terminating(error):
                            raise OwnershipUnavailable(
                                f"cannot use leases: {error.message}"
                            ) from error
                        problem = error.message
                    except (errors.ApiError, Unreachable) as error:
                        problem = str(error)
                    await asyncio.sleep(backoff.next_s())
        except TimeoutError:
            raise OwnershipUnavailable(
                f"cannot find out who runs the controllers: {problem}"
            ) from None

    async def _take(self, controller: str) -> Claim:
        name = _lease_name(controller)
        # A claim is worth nothing without a heartbeat; one that was sent late has an old time.
        while not self._is_embedded and self._clock() - self._renewed_s > self._renew_s:
            await self._renew()
        while True:
            try:
                lease = await self._client.get(LEASES, name, namespace=names.SYSTEM_NAMESPACE)
            except errors.NotFound:
                wanted = self._lease(controller, {}, epoch=0)
                try:
                    return self._claimed(controller, await self._client.create(LEASES, wanted))
                except errors.AlreadyExists:
                    continue
            expired = await self._check_free(controller, lease)
            epoch = ((lease.get("spec") or {}).get("leaseTransitions") or 0) + 1
            wanted = self._lease(controller, lease, epoch=epoch)
            try:
                claim = self._claimed(controller, await self._client.update(LEASES, wanted))
            except errors.Conflict:
                continue  # somebody was faster; look at who
            if expired is not None:
                await self._attempt_delete(expired)
            return claim

    async def _check_free(self, controller: str, lease: Object) -> Object | None:
        """The heartbeat that has ended, if that is why the lease is free. Raises HeldByOther."""
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return None
        if (lease["metadata"].get("labels") or {}).get(names.LEASE_LABEL) == _EMBEDDED:
            if self._is_embedded:
                return None  # of an earlier run: this one has the daemon's lock
            raise HeldByOther(controller, holder, is_embedded=True)
        name = heartbeat_name(holder)
        try:
            heartbeat = await self._client.get(LEASES, name, namespace=names.SYSTEM_NAMESPACE)
        except errors.NotFound:
            return None
        if self._remaining_s(heartbeat) > 0:
            raise HeldByOther(controller, holder)
        log.info("controller %s: its owner %s has not been heard of", controller, holder)
        return heartbeat

    def _claimed(self, controller: str, lease: Object) -> Claim:
        known = self._claims.get(controller)
        if known is not None:
            known.lose("it was taken anew")
        epoch = lease["spec"].get("leaseTransitions") or 0
        claim = Claim(controller, self.identity, epoch, lease["metadata"]["resourceVersion"])
        self._claims[controller] = claim
        return claim

    def _lease(self, controller: str, present: Object, *, epoch: int) -> Object:
        now = self._now()
        spec: Object = {
            "holderIdentity": self.identity,
            "leaseTransitions": epoch,
            "acquireTime": now,
            "renewTime": now,
        }
        if not self._is_embedded:
            spec["leaseDurationSeconds"] = self._lease_s
        metadata = {**present.get("metadata", {}), **_metadata(_lease_name(controller))}
        metadata["labels"] = {names.LEASE_LABEL: _EMBEDDED if self._is_embedded else "external"}
        return {"metadata": metadata, "spec": spec}

    # -- heartbeat

    async def _begin(self) -> None:
        try:
            await self._client.create(NAMESPACES, {"metadata": {"name": names.SYSTEM_NAMESPACE}})
        except errors.AlreadyExists:
            pass
        if self._is_embedded:
            await self._forget_earlier_runs()
        else:
            await self._renew()

    async def _forget_earlier_runs(self) -> None:
        found = await self._client.list(
            LEASES,
            namespace=names.SYSTEM_NAMESPACE,
            label_selector=f"{names.LEASE_LABEL}={_EMBEDDED}",
        )
        for lease in found.items:
            if (lease.get("spec") or {}).get("holderIdentity") not in (None, self.identity):
                patch = {
                    "metadata": {"resourceVersion": lease["metadata"]["resourceVersion"]},
                    "spec": {"holderIdentity": None},
                }
                name = lease["metadata"]["name"]
                await self._client.patch(LEASES, name, patch, namespace=names.SYSTEM_NAMESPACE)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._renew_s)
            # The monotonic clock stands still while a computer sleeps, the other may be set.
            left_s = self._lease_s - (self._clock() - self._renewed_s)
            deadline = loop.time() + max(left_s, self._renew_s)
            try:
                async with asyncio.timeout_at(deadline):
                    await self._renew()
                self.gone.clear()
                continue
            except TimeoutError:
                problem = "no answer"
            except (errors.ApiError, Unreachable) as error:
                problem = str(error)
            log.debug("heartbeat of %s: %s", self.identity, problem)
            if self._clock() - self._renewed_s >= self._lease_s:
                self._lose_all(f"the heartbeat could not be renewed for {self._lease_s} s")
                self.gone.set()

    async def _renew(self) -> None:
        begun = self._clock()
        name = heartbeat_name(self.identity)
        try:
            patch = {"spec": {"renewTime": self._now()}}
            await self._client.patch(LEASES, name, patch, namespace=names.SYSTEM_NAMESPACE)
        except errors.NotFound:
            now = self._now()
            spec = {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": self._lease_s,
                "acquireTime": now,
                "renewTime": now,
            }
            metadata = {**_metadata(name), "labels": {names.LEASE_LABEL: "heartbeat"}}
            await self._client.create(LEASES, {"metadata": metadata, "spec": spec})
        self._renewed_s = begun

    def _lose_all(self, reason: str) -> None:
        for claim in self._claims.values():
            claim.lose(reason)
        self._claims.clear()

    def _remaining_s(self, heartbeat: Object) -> float:
        """How long a heartbeat is still good for."""
        return end_of(heartbeat, default_s=self._lease_s) - self._clock()

    # -- following

    def _heartbeat(self, holder: str) -> Object | None:
        return self._informer.get(ObjectKey(names.SYSTEM_NAMESPACE, heartbeat_name(holder)))

    def _see(self, change: Change) -> None:
        name = change.key.name
        for controller, changed in self._waiting.items():
            # A heartbeat that ends, or is seen for the first time, may be what keeps any of them.
            if None in (change.old, change.new) or _lease_name(controller) == name:
                changed.set()
        for claim in list(self._claims.values()):
            if _lease_name(claim.controller) == name:
                self._compare(claim, change)

    def _compare(self, claim: Claim, change: Change) -> None:
        lease = change.new or change.old
        assert lease is not None
        if int(lease["metadata"]["resourceVersion"]) < int(claim.resource_version):
            return  # from before
        spec = change.new.get("spec") or {} if change.new is not None else {}
        holder, epoch = spec.get("holderIdentity"), spec.get("leaseTransitions") or 0
        if (holder, epoch) != (claim.holder, claim.epoch):
            del self._claims[claim.controller]
            claim.lose(f"its owner is {holder or 'nobody'}")
            if holder and holder != self.identity:
                self.deposed.set()

    async def _attempt_delete(self, heartbeat: Object) -> None:
        """Remove a heartbeat; one that was read only if nobody has renewed it since."""
        metadata = heartbeat["metadata"]
        try:
            await self._client.delete(
                LEASES,
                metadata["name"],
                namespace=names.SYSTEM_NAMESPACE,
                resource_version=metadata.get("resourceVersion", ""),
            )
        except (errors.NotFound, errors.Conflict):
            pass
        except (errors.ApiError, Unreachable) as error:
            log.warning("lease %s not removed: %s", metadata["name"], error)

    def _now(self) -> str:
        return timestamps.now_micro_text(self._clock)


def _is_terminating(error: errors.ApiError) -> bool:
    """Whether the namespace is on its way out, and will be made anew."""
    causes = (error.details or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _lease_name(controller: str) -> str:
    return names.CONTROLLER_LEASE_PREFIX + controller


def _metadata(name: str) -> Object:
    return {"name": name, "namespace": names.SYSTEM_NAMESPACE}
