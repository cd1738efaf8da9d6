# SPDX-License-Identifier: Apache-2.0
"""Ownership: Leases decide which process runs a controller.

    rdd-system/controller-<name>   one per controller: the holder, and the number of
                                   transitions (the epoch)
    rdd-system/manager-<identity>  one per process: its heartbeat

A holder owns a controller while its heartbeat is not older than `lease_s`. One renewal keeps
all controllers of a process, and the Lease of a controller is written only when its holder
changes, each time with a new epoch. Acquiring is a write with the resource version that was
read, so of two racing processes one succeeds.

Everything fails closed: a process that cannot read leases does not start; one that cannot
renew in time stops; one that sees another holder, or none, stops. The server rejects the
writes of a process that could not notice any of this (`rdd.runtime.fencing`).

Processes of one machine compare heartbeats with the clock (`compares_clocks`). On several machines
clocks differ, so there a heartbeat expires when this process has not seen it change for its
duration. `lease_of` gives controllers that run once per machine a Lease for each machine.

The manager of the daemon (`is_embedded`) has the lifetime of the server, so it has no
heartbeat; leases of an earlier run of the daemon are free.
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
from rdd.runtime.heartbeats import expires_at, heartbeat_name, is_renewed
from rdd.runtime.informer import Change, Informer
from rdd.runtime.types import ObjectKey

log = logging.getLogger("rdd.runtime")

T = TypeVar("T")

LEASE_S = 15
RENEW_S = 5.0
START_S = 30.0
"""Timeout for reading and acquiring leases at start."""

STOP_S = 5.0
"""Timeout for releasing leases; those that are not released expire."""

_EMBEDDED = "embedded"


class OwnershipError(Exception):
    """A controller cannot run in this process; the text is the reason, in one line."""


class HeldByOther(OwnershipError):
    """Another process runs the controller."""

    def __init__(self, controller: str, holder: str, *, is_embedded: bool = False) -> None:
        super().__init__(f'controller "{controller}" is run by "{holder}"')
        self.controller = controller
        self.holder = holder
        self.is_embedded = is_embedded
        """The holder is the daemon."""


class OwnershipUnavailable(OwnershipError):
    """The owner of a controller could not be determined."""


class Claim:
    """The ownership of one controller during one epoch."""

    def __init__(self, controller: str, holder: str, epoch: int, resource_version: str) -> None:
        self.controller = controller
        self.holder = holder
        self.epoch = epoch
        self.resource_version = resource_version
        self.lost = asyncio.Event()
        """Set when this process must stop running the controller."""
        self.reason = ""

    @property
    def owner(self) -> str:
        """Return the owner header of writes in this epoch."""
        return f"{self.controller}/{self.holder}/{self.epoch}"

    def lose(self, reason: str) -> None:
        """End the claim."""
        if not self.lost.is_set():
            self.reason = reason
            self.lost.set()
            log.warning("lost ownership of controller %s: %s", self.controller, reason)


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
        compares_clocks: bool = True,
        lease_of: Callable[[str], str] = lambda controller: controller,
    ) -> None:
        self._client = client
        self._compares_clocks = compares_clocks
        self._lease_of = lease_of
        self._observed: dict[str, tuple[str, float]] = {}
        """Heartbeats: the newest version, and when this process saw it first (monotonic)."""
        self.identity = f"{name}-{secrets.token_hex(4)}"
        """Unique per process and start."""
        self._is_embedded = is_embedded
        self._lease_s = lease_s
        self._renew_s = renew_s
        self._start_s = start_s
        self._clock = clock
        self._claims: dict[str, Claim] = {}
        self._informer = Informer(client, LEASES, namespace=names.SYSTEM_NAMESPACE)
        self._informer.add_handler(self._on_lease_change)
        self._waiting: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._renewed_s = 0.0
        self.server_lost = asyncio.Event()
        """Set while the server has not confirmed a renewal for the duration of a lease."""
        self.taken_over = asyncio.Event()
        """Set when another process has acquired a controller of this one."""

    # -- lifecycle

    async def start(self) -> None:
        """Start the heartbeat. Raises OwnershipUnavailable if the server does not respond."""
        await self._retry(self._begin)
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._informer.run(), name="rdd-leases"))
        if not self._is_embedded:
            self._tasks.append(loop.create_task(self._renew_periodically(), name="rdd-heartbeat"))

    async def stop(self) -> None:
        """Release all claims, so that other processes can acquire them at once."""
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
        """Acquire a controller now. Raises HeldByOther or OwnershipUnavailable."""
        lease = self._lease_of(controller)
        return await self._retry(lambda: self._take(lease))

    async def find_holder(self, controller: str) -> HeldByOther | None:
        """Return the live holder of a controller; None if the controller can be acquired.

        A holder is live if it renews its heartbeat; one that was killed or hangs is waited for
        until its lease expires. Raises OwnershipUnavailable.
        """
        lease = self._lease_of(controller)
        return await self._retry(lambda: self._find_holder(lease))

    async def wait_for(self, controller: str) -> Claim:
        """Acquire a controller as soon as it is free."""
        controller = self._lease_of(controller)
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
        """Return when a lease has changed, or the heartbeat of its holder has expired."""
        while not changed.is_set():
            heartbeat = self._heartbeat(holder)
            # Without a heartbeat the holder is the manager of the daemon, or the informer has
            # not received the heartbeat yet: either way a change follows.
            pause_s = self._remaining_s(heartbeat) if heartbeat is not None else None
            if pause_s is not None and pause_s <= 0:
                return
            try:
                async with asyncio.timeout(pause_s):
                    await changed.wait()
            except TimeoutError:
                continue  # it may have been renewed since

    async def release(self, claim: Claim) -> None:
        """Release a controller; failures are logged, the lease then expires."""
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
        """Return a client whose writes the server accepts only while the claim is valid."""
        fenced = FencedTransport(self._client.transport, claim.owner, claim.lose)
        return Client(fenced, user_agent=f"rdd-{claim.controller}")

    # -- acquiring

    async def _find_holder(self, controller: str) -> HeldByOther | None:
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
                if held.is_embedded or await is_renewed(
                    self._client, held.holder, clock=self._clock
                ):
                    return held

    async def _retry(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a step, retried with backoff while the server is unavailable."""
        backoff = make_backoff()
        problem = "no response"
        try:
            async with asyncio.timeout(self._start_s):
                while True:
                    try:
                        return await step()
                    except (errors.Unauthorized, errors.Forbidden) as error:
                        if not error.has_cause(names.NAMESPACE_TERMINATING):
                            raise OwnershipUnavailable(
                                f"cannot use leases: {error.message}"
                            ) from error
                        problem = error.message
                    except (errors.ApiError, Unreachable) as error:
                        problem = str(error)
                    await asyncio.sleep(backoff.next_s())
        except TimeoutError:
            raise OwnershipUnavailable(
                f"cannot determine who runs the controllers: {problem}"
            ) from None

    async def _take(self, controller: str) -> Claim:
        name = _lease_name(controller)
        # A claim needs a fresh heartbeat.
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
                continue  # another process was faster: read its claim
            if expired is not None:
                await self._attempt_delete(expired)
            return claim

    async def _check_free(self, controller: str, lease: Object) -> Object | None:
        """Return the expired heartbeat if that is why the lease is free. Raises HeldByOther."""
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if not holder or holder == self.identity:
            return None
        if (lease["metadata"].get("labels") or {}).get(names.LEASE_LABEL) == _EMBEDDED:
            if self._is_embedded:
                return None  # of an earlier run: this process has the lock of the daemon
            raise HeldByOther(controller, holder, is_embedded=True)
        name = heartbeat_name(holder)
        try:
            heartbeat = await self._client.get(LEASES, name, namespace=names.SYSTEM_NAMESPACE)
        except errors.NotFound:
            return None
        if self._remaining_s(heartbeat) > 0:
            raise HeldByOther(controller, holder)
        log.info("controller %s: the lease of its owner %s has expired", controller, holder)
        return heartbeat

    def _claimed(self, controller: str, lease: Object) -> Claim:
        earlier = self._claims.get(controller)
        if earlier is not None:
            earlier.lose("it was acquired again")
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
            await self._release_earlier_runs()
        else:
            await self._renew()

    async def _release_earlier_runs(self) -> None:
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

    async def _renew_periodically(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._renew_s)
            # The monotonic clock stops while a computer sleeps; the wall clock may be changed.
            left_s = self._lease_s - (self._clock() - self._renewed_s)
            deadline = loop.time() + max(left_s, self._renew_s)
            try:
                async with asyncio.timeout_at(deadline):
                    await self._renew()
                self.server_lost.clear()
                continue
            except TimeoutError:
                problem = "no response"
            except (errors.ApiError, Unreachable) as error:
                problem = str(error)
            log.debug("heartbeat of %s: %s", self.identity, problem)
            if self._clock() - self._renewed_s >= self._lease_s:
                self._lose_all(f"the heartbeat could not be renewed for {self._lease_s} s")
                self.server_lost.set()

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
        if not self._compares_clocks:
            spec = heartbeat.get("spec") or {}
            duration_s = spec.get("leaseDurationSeconds") or self._lease_s
            return float(self._observe(heartbeat) + duration_s - asyncio.get_running_loop().time())
        return expires_at(heartbeat, default_s=self._lease_s) - self._clock()

    def _observe(self, heartbeat: Object) -> float:
        """Return when this version of a heartbeat was seen first."""
        name, version = (heartbeat["metadata"][key] for key in ("name", "resourceVersion"))
        known, at = self._observed.get(name, ("", 0.0))
        if known == version:
            return at
        self._observed[name] = version, asyncio.get_running_loop().time()
        return self._observed[name][1]

    # -- watching

    def _heartbeat(self, holder: str) -> Object | None:
        return self._informer.get(ObjectKey(names.SYSTEM_NAMESPACE, heartbeat_name(holder)))

    def _on_lease_change(self, change: Change) -> None:
        name = change.key.name
        if not self._compares_clocks and name.startswith(names.MANAGER_LEASE_PREFIX):
            if change.new is not None:
                self._observe(change.new)
            else:
                self._observed.pop(name, None)
        for controller, changed in self._waiting.items():
            # A heartbeat that expires or appears can concern every waiting controller.
            if None in (change.old, change.new) or _lease_name(controller) == name:
                changed.set()
        for claim in list(self._claims.values()):
            if _lease_name(claim.controller) == name:
                self._compare(claim, change)

    def _compare(self, claim: Claim, change: Change) -> None:
        lease = change.new or change.old
        assert lease is not None
        if int(lease["metadata"]["resourceVersion"]) < int(claim.resource_version):
            return  # older than the claim
        spec = change.new.get("spec") or {} if change.new is not None else {}
        holder, epoch = spec.get("holderIdentity"), spec.get("leaseTransitions") or 0
        if (holder, epoch) != (claim.holder, claim.epoch):
            del self._claims[claim.controller]
            claim.lose(f"the owner is {holder}" if holder else "it has no owner")
            if holder and holder != self.identity:
                self.taken_over.set()

    async def _attempt_delete(self, heartbeat: Object) -> None:
        """Delete a heartbeat; one that was read only if it has not been renewed since."""
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
            log.warning("lease %s not deleted: %s", metadata["name"], error)

    def _now(self) -> str:
        return timestamps.now_micro_text(self._clock)


def _lease_name(controller: str) -> str:
    return names.CONTROLLER_LEASE_PREFIX + controller


def _metadata(name: str) -> Object:
    return {"name": name, "namespace": names.SYSTEM_NAMESPACE}
