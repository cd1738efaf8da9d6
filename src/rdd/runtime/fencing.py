# SPDX-License-Identifier: Apache-2.0
"""Writes that say on whose behalf they are made.

A process can be stopped for a minute between deciding and writing. When it goes
on, another may own its controller, and no check of its own can help: the write
is already on its way. So every write of a controller carries the epoch of its
ownership, and the server, which has the Lease, refuses all but the current one.
"""

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from rdd.api import names
from rdd.client import Call, Reply, Transport
from rdd.client.transport import Keep

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_MARK = f'"{names.STALE_OWNER}"'.encode()


class FencedTransport:
    """A transport whose writes carry an owner; `on_stale` is told when one is refused for it."""

    def __init__(self, inner: Transport, owner: str, on_stale: Callable[[str], None]) -> None:
        self._inner = inner
        self._owner = owner
        self._on_stale = on_stale
        self.saves_bytes = inner.saves_bytes
        self.watch_timeout_s = inner.watch_timeout_s
        self.wants_bookmarks = inner.wants_bookmarks

    async def request(self, call: Call) -> Reply:
        """The answer to a call."""
        if call.method in _READING:
            return await self._inner.request(call)
        headers = {**call.headers, names.OWNER_HEADER: self._owner}
        reply = await self._inner.request(replace(call, headers=headers))
        if reply.status == 409 and _MARK in reply.body:
            self._on_stale("the server refused a write: another process is the owner now")
        return reply

    def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[bytes, None]:
        """The lines of a watch."""
        return self._inner.watch(call, keep)

    async def close(self) -> None:
        """The inner transport belongs to others."""
