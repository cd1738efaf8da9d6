# SPDX-License-Identifier: Apache-2.0
"""The interface between the async client and its two transports.

A transport carries requests and replies as bytes. The client handles paths,
options, objects and errors; a transport only depends on `Call` and `Reply`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import orjson

Query = dict[str, list[str]]
Keep = Callable[[str, bytes], bool]
"""Returns whether to decode an event of a watch, given its type and the bytes of its object."""

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


class EncodedEvent(NamedTuple):
    """One event of a watch, not decoded: `head` and `body` together are the JSON of its object.

    In-process, both are the bytes that the server keeps.
    """

    type: str
    head: bytes
    body: bytes


def event_of_line(line: bytes) -> EncodedEvent:
    """Return the event of one line of a watch."""
    if line.startswith(b'{"type":"') and line.endswith(b"}"):
        end = line.index(b'"', 9)
        if line.startswith(b',"object":', end + 1):
            return EncodedEvent(line[9:end].decode(), b"", line[end + 11 : -1])
    found = orjson.loads(line)
    return EncodedEvent(str(found["type"]), b"", orjson.dumps(found["object"]))


class Transport(Protocol):
    """Carries calls to one server as one user."""

    saves_bytes: bool
    """Smaller replies are worth work of the server: true over a network, false in-process."""

    watch_timeout_s: int
    """Timeout that watches request; 0 leaves it to the server."""

    wants_bookmarks: bool
    """Watches request bookmarks, which shorten the replay after a broken connection."""

    streams_state: bool
    """A watch can begin with all existing objects, filtered by `keep`: cheaper than a list where
    nothing has to be copied, decoded or paged."""

    async def request(self, call: Call) -> Reply:
        """Return the reply to a call. Raises Unreachable."""
        ...

    def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[EncodedEvent, None]:
        """Yield the events of a watch that `keep` accepts, until the server ends it.

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
