# SPDX-License-Identifier: Apache-2.0
"""The interface between the async client and its two transports.

A transport carries requests and replies as bytes. The client handles paths,
options, objects and errors; a transport only depends on `Call` and `Reply`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Query = dict[str, list[str]]
Keep = Callable[[bytes], bool]
"""Returns whether to decode an event of a watch, given its raw line."""

NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """A request for a transport."""

    method: str
    path: str
    """Escaped."""
    query: Query = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    """In their usual spelling (`Content-Type`)."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete reply, successful or not."""

    status: int
    body: bytes
    headers: Sequence[tuple[str, str]] = ()


class Transport(Protocol):
    """Carries calls to one server as one user."""

    saves_bytes: bool
    """Smaller replies are worth work of the server: true over a network, false in-process."""

    watch_timeout_s: int
    """Timeout that watches request; 0 leaves it to the server."""

    wants_bookmarks: bool
    """Watches request bookmarks, which shorten the replay after a broken connection."""

    async def request(self, call: Call) -> Reply:
        """Return the reply to a call. Raises Unreachable."""
        ...

    def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch that `keep` accepts, until the server ends it.

        Any status but 200 MUST be raised as `WatchRejected` before the first line,
        a broken connection as `Unreachable`.
        """
        ...

    async def close(self) -> None:
        """Close all connections; open watches end."""
        ...


class WatchRejected(Exception):
    """The reply to a watch is a failure; the client turns it into an ApiError."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"HTTP {reply.status}")
        self.reply = reply
