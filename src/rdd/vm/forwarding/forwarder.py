# SPDX-License-Identifier: Apache-2.0
"""Keeps what is forwarded in step with what listens in the guest.

The forwarder is told the whole set of listeners whenever it changes and works out the
difference. Two listeners may lead to the same address here (a server that listens on 0.0.0.0
and on [::] has two); the address is opened once and stays open until the last of them is
gone. An address that somebody else has is reported once and tried again, with growing pauses,
for as long as the guest listens: the other one may go away.

What happens is told in the words of Lima's events: `forwarding`, `not-forwarding`,
`stopping`, `failed`.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from rdd.vm.drivers.protocol import Endpoint, Forward, ForwardError, Listener, NotForwarded
from rdd.vm.forwarding.rules import Rules

EventType = Literal["forwarding", "not-forwarding", "stopping", "failed"]

FIRST_RETRY_S = 1.0
LAST_RETRY_S = 30.0

_Key = tuple[str, Endpoint, bool]


class Carrier(Protocol):
    """The part of a driver that carries connections."""

    async def open_forward(self, forward: Forward) -> None:
        """Carry connections. Raises ForwardError."""

    async def close_forward(self, forward: Forward) -> None:
        """Stop."""


@dataclass(frozen=True, slots=True)
class PortEvent:
    """Something that happened to a forward."""

    type: EventType
    protocol: str
    guest: str
    host: str = ""
    error: str = ""


@dataclass(slots=True)
class _Entry:
    forward: Forward
    error: str = ""
    is_open: bool = False
    retry: "asyncio.Task[None] | None" = None


class Forwarder:
    """The forwards of one machine."""

    def __init__(
        self, rules: Rules, carrier: Carrier, *, report: Callable[[PortEvent], None]
    ) -> None:
        self._rules = rules
        self._carrier = carrier
        self._report = report
        self._entries: dict[_Key, _Entry] = {}
        self._static: frozenset[_Key] = frozenset()
        self._refused: frozenset[Listener] = frozenset()
        self._busy = asyncio.Lock()  # one change at a time, so that events come in order

    async def open_static(self) -> list[PortEvent]:
        """Open what does not wait for a listener; those that failed."""
        async with self._busy:
            forwards = {_key(forward): forward for forward in self._rules.static()}
            self._static = frozenset(forwards)
            for key, forward in forwards.items():
                await self._add(key, forward)
            return [state for state in self.states() if state.error]

    async def update(self, listeners: Iterable[Listener]) -> None:
        """Bring the forwards in step with what listens in the guest now."""
        async with self._busy:
            wanted: dict[_Key, Forward] = {}
            refused: set[Listener] = set()
            for listener in sorted(listeners):
                forward = self._rules.forward(listener)
                if forward is None:
                    refused.add(listener)
                else:
                    wanted.setdefault(_key(forward), forward)
            for key in [
                key for key in self._entries if key not in wanted | dict.fromkeys(self._static)
            ]:
                await self._remove(key)
            for listener in sorted(refused - self._refused):
                address = Endpoint(ip=listener.ip, port=listener.port)
                self._report(PortEvent("not-forwarding", listener.protocol, str(address)))
            self._refused = frozenset(refused)
            for key, forward in wanted.items():
                if key not in self._entries:
                    await self._add(key, forward)

    async def close(self) -> None:
        """Close all."""
        async with self._busy:
            for key in list(self._entries):
                await self._remove(key)

    def states(self) -> list[PortEvent]:
        """What is forwarded, and what should be but is not."""
        return [
            _event("forwarding" if entry.is_open else "failed", entry.forward, entry.error)
            for entry in self._entries.values()
        ]

    async def _add(self, key: _Key, forward: Forward) -> None:
        entry = self._entries[key] = _Entry(forward)
        try:
            await self._carrier.open_forward(forward)
        except NotForwarded as error:
            del self._entries[key]
            self._report(_event("not-forwarding", forward, str(error)))
            return
        except ForwardError as error:
            entry.error = str(error)
            self._report(_event("failed", forward, entry.error))
            if not error.permanent:
                name = f"retry forward {forward.host}"
                entry.retry = asyncio.create_task(self._retry(key, entry), name=name)
            return
        entry.is_open = True
        self._report(_event("forwarding", forward))

    async def _retry(self, key: _Key, entry: _Entry) -> None:
        pause = FIRST_RETRY_S
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_RETRY_S)
            async with self._busy:
                if self._entries.get(key) is not entry:
                    return
                try:
                    await self._carrier.open_forward(entry.forward)
                except ForwardError as error:
                    entry.error = str(error)
                    continue
                entry.is_open, entry.error, entry.retry = True, "", None
                self._report(_event("forwarding", entry.forward))
                return

    async def _remove(self, key: _Key) -> None:
        entry = self._entries.pop(key)
        if entry.retry is not None:
            entry.retry.cancel()
        if entry.is_open:
            self._report(_event("stopping", entry.forward))
            await self._carrier.close_forward(entry.forward)


def _key(forward: Forward) -> _Key:
    """What can be had only once: the address that is listened on."""
    return (forward.protocol, forward.guest if forward.reverse else forward.host, forward.reverse)


def _event(type_: EventType, forward: Forward, error: str = "") -> PortEvent:
    return PortEvent(type_, forward.protocol, str(forward.guest), str(forward.host), error)
