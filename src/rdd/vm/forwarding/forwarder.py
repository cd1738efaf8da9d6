# SPDX-License-Identifier: Apache-2.0
"""Keeps the forwards of a machine in sync with the listeners in its guest.

The driver reports the whole set of listeners whenever it changes; the forwarder computes the
difference. Two listeners may map to the same host address (a server that listens on 0.0.0.0
and on [::] has two); the forwarder opens the address once and closes it with the last of them.
An address that another process uses is reported once and retried every two seconds for as long
as the guest listens.

An engine can also request a port before it listens (`publish`): then the failure is returned
instead of retried, and the forward stays until the engine releases it.

Reports use the types of Lima's events: `forwarding`, `not-forwarding`, `stopping`, `failed`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from rdd.base.backoff import Backoff
from rdd.vm.drivers.protocol import (
    Endpoint,
    Forward,
    ForwardError,
    Listener,
    NotForwarded,
    PortForwarding,
    Publication,
)
from rdd.vm.forwarding.rules import ForwardingRules
from rdd.vm.problem import Problem

PortEventType = Literal["forwarding", "not-forwarding", "stopping", "failed"]

FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 2.0  # a raised problem is looked at as often

_Key = tuple[str, Endpoint, bool]


@dataclass(frozen=True, slots=True)
class PortEvent:
    """A state change of a forward."""

    type: PortEventType
    protocol: str
    guest: str
    host: str = ""
    error: str = ""
    reason: str = ""
    """The reason of the ForwardError; empty without one."""


@dataclass(slots=True)
class _Entry:
    forward: Forward
    error: str = ""
    reason: str = ""
    is_open: bool = False
    retry: "asyncio.Task[None] | None" = None

    def fail(self, error: ForwardError) -> None:
        self.error, self.reason = str(error), error.reason

    def event(self, type_: PortEventType) -> PortEvent:
        forward = self.forward
        return PortEvent(
            type_,
            forward.protocol,
            str(forward.guest),
            str(forward.host),
            self.error,
            self.reason,
        )


class Forwarder:
    def __init__(
        self,
        rules: ForwardingRules,
        driver: PortForwarding,
        *,
        report: Callable[[PortEvent], None],
    ) -> None:
        self._rules = rules
        self._driver = driver
        self._report = report
        self._entries: dict[_Key, _Entry] = {}
        self._static: frozenset[_Key] = frozenset()
        self._listened: frozenset[_Key] = frozenset()
        self._published: Counter[_Key] = Counter()
        self._refused: frozenset[Listener] = frozenset()
        self._lock = asyncio.Lock()  # serialises changes, so that reports are in order

    async def open_static(self) -> list[Problem]:
        """Open the forwards that do not depend on a listener; return those that failed."""
        async with self._lock:
            forwards = {_key(forward): forward for forward in self._rules.static()}
            self._static = frozenset(forwards)
            for key, forward in forwards.items():
                await self._add(key, forward)
            return [
                Problem(entry.error, entry.reason, str(entry.forward.host), entry.forward.host.port)
                for entry in self._entries.values()
                if entry.error
            ]

    async def update(self, listeners: Iterable[Listener]) -> None:
        """Open and close forwards to match the listeners in the guest."""
        async with self._lock:
            wanted: dict[_Key, Forward] = {}
            refused: set[Listener] = set()
            for listener in sorted(listeners):
                forwards = self._rules.forwards(listener)
                if not forwards:
                    refused.add(listener)
                for forward in forwards:
                    wanted.setdefault(_key(forward), forward)
            self._listened = frozenset(wanted)
            for key in [key for key in self._entries if not self._is_used(key)]:
                await self._remove(key)
            for listener in sorted(refused - self._refused):
                address = Endpoint(ip=listener.ip, port=listener.port)
                self._report(PortEvent("not-forwarding", listener.protocol, str(address)))
            self._refused = frozenset(refused)
            for key, forward in wanted.items():
                if key not in self._entries:
                    await self._add(key, forward)

    async def publish(self, listener: Listener, *, target: Endpoint | None = None) -> Publication:
        """Implement `PortPublisher`; of several forwards all are opened or none."""
        forwards = list(self._rules.published(listener))
        if target is not None and not forwards:
            host = Endpoint(ip=listener.ip, port=listener.port)
            forwards = [Forward(listener.protocol, guest=target, host=host)]
        done: list[Forward] = []
        async with self._lock:
            try:
                for forward in forwards:
                    await self._publish(forward)
                    done.append(forward)
            except ForwardError:
                for forward in done:
                    await self._unpublish(forward)
                raise
        return Publication(tuple(forwards))

    async def unpublish(self, publication: Publication) -> None:
        """Implement `PortPublisher`."""
        async with self._lock:
            for forward in publication.forwards:
                await self._unpublish(forward)

    async def _publish(self, forward: Forward) -> None:
        key = _key(forward)
        entry = self._entries.get(key)
        if entry is None or not entry.is_open:
            await self._driver.open_forward(forward)
            if entry is not None and entry.retry is not None:
                entry.retry.cancel()
            entry = self._entries[key] = _Entry(forward, is_open=True)
            self._report(entry.event("forwarding"))
        self._published[key] += 1

    async def _unpublish(self, forward: Forward) -> None:
        key = _key(forward)
        self._published[key] -= 1
        self._published += Counter()  # drops zeros
        if key in self._entries and not self._is_used(key):
            await self._remove(key)

    def _is_used(self, key: _Key) -> bool:
        return key in self._listened or key in self._static or key in self._published

    async def close(self) -> None:
        async with self._lock:
            for key in list(self._entries):
                await self._remove(key)

    def states(self) -> list[PortEvent]:
        """Return the open forwards and those that failed."""
        return [
            entry.event("forwarding" if entry.is_open else "failed")
            for entry in self._entries.values()
        ]

    async def _add(self, key: _Key, forward: Forward) -> None:
        entry = self._entries[key] = _Entry(forward)
        try:
            await self._driver.open_forward(forward)
        except NotForwarded as error:
            del self._entries[key]
            entry.fail(error)
            self._report(entry.event("not-forwarding"))
            return
        except ForwardError as error:
            entry.fail(error)
            self._report(entry.event("failed"))
            if not error.permanent:
                name = f"retry forward {forward.host}"
                entry.retry = asyncio.create_task(self._retry(key, entry), name=name)
            return
        entry.is_open = True
        self._report(entry.event("forwarding"))

    async def _retry(self, key: _Key, entry: _Entry) -> None:
        backoff = Backoff(FIRST_RETRY_S, LONGEST_RETRY_S)
        while True:
            await asyncio.sleep(backoff.next_s())
            async with self._lock:
                if self._entries.get(key) is not entry:
                    return
                try:
                    await self._driver.open_forward(entry.forward)
                except ForwardError as error:
                    entry.fail(error)
                    continue
                entry.is_open, entry.error, entry.reason, entry.retry = True, "", "", None
                self._report(entry.event("forwarding"))
                return

    async def _remove(self, key: _Key) -> None:
        entry = self._entries.pop(key)
        if entry.retry is not None:
            entry.retry.cancel()
        if entry.is_open:
            self._report(entry.event("stopping"))
            await self._driver.close_forward(entry.forward)


def _key(forward: Forward) -> _Key:
    """Return the exclusive resource of a forward: the address it listens on."""
    return (forward.protocol, forward.guest if forward.reverse else forward.host, forward.reverse)
