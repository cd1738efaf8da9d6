# SPDX-License-Identifier: Apache-2.0
"""How a client reaches its server: the small contract of the two transports.

A transport carries requests and answers as bytes; paths, options, objects and
errors are the client's business. `Call` and `Reply` are all it has to know.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

Query = dict[str, list[str]]
Keep = Callable[[bytes], bool]
"""Whether a line of a watch is worth decoding; asked with the raw text of each event."""

NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way to a transport."""

    method: str
    path: str
    """With special characters of names already escaped."""
    query: Query = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    """With their usual spelling (`Content-Type`)."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer, good or bad."""

    status: int
    body: bytes
    headers: Sequence[tuple[str, str]] = ()


class Transport(Protocol):
    """Carries calls to one server as one user."""

    saves_bytes: bool
    """Smaller answers are worth work of the server: true over a network, false in-process."""

    watch_timeout_s: int
    """How long the server is asked to keep a watch open; 0 leaves it to the server."""

    wants_bookmarks: bool
    """Watches can break at any time, so a place to resume at is worth an event a minute."""

    async def request(self, call: Call) -> Reply:
        """The answer to a call; Unreachable if there is none."""
        ...

    def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[bytes, None]:
        """The lines of a watch that `keep` lets through, until the server ends it.

        A refusal (any status but 200) MUST be raised as `WatchRejected` before the
        first line; a broken connection ends in Unreachable.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; open watches end."""
        ...


class WatchRejected(Exception):
    """A watch was answered with a failure; the client turns the reply into an ApiError."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"HTTP {reply.status}")
        self.reply = reply
