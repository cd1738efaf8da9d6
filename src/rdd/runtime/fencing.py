# SPDX-License-Identifier: Apache-2.0
"""Fencing: writes that carry the epoch of their owner.

A process can be suspended for a minute between a decision and its write. When it resumes,
another process may own its controller, and no check in the process can prevent the race: the
write is already in flight. So every write of a controller carries the epoch of its ownership,
and the server, which stores the Lease, rejects all but the current epoch.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from rdd.api import names
from rdd.client import Call, Reply, Transport
from rdd.client.transport import EncodedEvent, Keep

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MARK = f'"{names.STALE_OWNER}"'.encode()


class FencedTransport:
    """A transport whose writes carry an owner; `on_stale` is called when one is rejected."""

    def __init__(self, inner: Transport, owner: str, on_stale: Callable[[str], None]) -> None:
        self._inner = inner
        self._owner = owner
        self._on_stale = on_stale
        self.saves_bytes = inner.saves_bytes
        self.watch_timeout_s = inner.watch_timeout_s
        self.wants_bookmarks = inner.wants_bookmarks
        self.streams_state = inner.streams_state

    async def request(self, call: Call) -> Reply:
        if call.method in _READING:
            return await self._inner.request(call)
        headers = {**call.headers, names.OWNER_HEADER: self._owner}
        reply = await self._inner.request(replace(call, headers=headers))
        if reply.status == 409 and _MARK in reply.body:
            self._on_stale("the server rejected a write: another process is the owner")
        return reply

    def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[EncodedEvent, None]:
        return self._inner.watch(call, keep)

    async def close(self) -> None:
        """Do nothing: the inner transport is shared."""
