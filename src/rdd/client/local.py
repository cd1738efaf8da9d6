# SPDX-License-Identifier: Apache-2.0
"""The in-process transport: a call is a function call.

No socket, no TLS and no copy: the bytes of a reply are those the server keeps.
The client is in a layer below the server and cannot import it, so both things it
needs are parameters, and their results are duck-typed:

    LocalTransport(server.handle, partial(Request, user=user))

The events of a watch pass through a `_Pipe`, which is the server's writer. The server
hands over the bytes that it keeps (`push_event`), so an event costs no copy. `keep`
runs while the server writes, so an unwanted event costs a function call and wakes
no task. The server disconnects a reader that lags by more than
`MAX_BEHIND_BYTES`, as on a socket.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Protocol

from rdd.client.errors import Unreachable
from rdd.client.transport import (
    Call,
    EncodedEvent,
    Keep,
    Reply,
    WatchRejected,
    event_of_line,
)

MAX_BEHIND_BYTES = 8 * 1024 * 1024
_ROOM_BYTES = 1024 * 1024
# A watch within one process cannot be half open, so it needs no timeout.
_FOREVER_S = 10 * 365 * 24 * 3600


class RequestFactory(Protocol):
    """Creates the server's request of one user from method, path, query, headers and body."""

    def __call__(self, method: str, path: str, /, **parts: Any) -> Any:
        """Return a request; `parts` are `query`, `headers` and `body`."""
        ...


class LocalTransport:
    """Calls a server in the same process."""

    saves_bytes = False
    watch_timeout_s = _FOREVER_S
    wants_bookmarks = False
    streams_state = True

    def __init__(
        self, handle: Callable[[Any], Awaitable[Any]], make_request: RequestFactory
    ) -> None:
        self._handle = handle
        self._make_request = make_request

    async def request(self, call: Call) -> Reply:
        """Return the server's reply; a streamed one is joined."""
        response = await self._send(call)
        headers = response.headers or ()
        produce = getattr(response, "produce", None)
        if produce is None:
            return Reply(response.status, response.body, headers)
        whole = _Whole()
        try:
            await produce(whole)
        except ConnectionError as error:
            raise Unreachable(str(error)) from error
        return Reply(response.status, b"".join(whole.pieces), headers)

    async def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[EncodedEvent, None]:
        """Yield the events of a watch until the server ends it."""
        response = await self._send(call)
        produce = getattr(response, "produce", None)
        if produce is None:
            raise WatchRejected(Reply(response.status, response.body, response.headers or ()))
        pipe = _Pipe(keep)

        async def run() -> None:
            try:
                await produce(pipe)
            except ConnectionError as error:
                pipe.fail(Unreachable(str(error)))
            except Exception as error:
                pipe.fail(error)
            finally:
                pipe.end()

        producer = asyncio.get_running_loop().create_task(run(), name=f"rdd-watch {call.path}")
        try:
            while (event := await pipe.next()) is not None:
                yield event
        finally:
            pipe.leave()
            producer.cancel()
            await asyncio.gather(producer, return_exceptions=True)

    async def close(self) -> None:
        """Do nothing: there are no connections."""

    async def _send(self, call: Call) -> Any:
        request = self._make_request(
            call.method, call.path, query=call.query, headers=call.headers, body=call.body
        )
        return await self._handle(request)


class _Whole:
    """A writer that collects a reply of finite length."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def push(self, data: bytes) -> bool:
        self.pieces.append(data)
        return True

    async def closed(self) -> None:
        await asyncio.get_running_loop().create_future()


class _Pipe:
    """The server's writer and the client's reader of one watch."""

    __slots__ = ("_error", "_events", "_gone", "_has_ended", "_keep", "_reader", "_room", "_size")

    def __init__(self, keep: Keep | None) -> None:
        self._keep = keep
        self._events: deque[EncodedEvent] = deque()
        self._size = 0
        self._reader: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_ended = False
        self._error: Exception | None = None

    # -- the server's side

    async def write(self, data: bytes) -> None:
        """Queue data and wait until the reader has caught up."""
        if self._gone.done():
            raise ConnectionResetError("the watch was closed by its reader")
        self._take(data)
        while self._size > _ROOM_BYTES and not self._gone.done():
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def push(self, data: bytes) -> bool:
        """Queue data; returns False if the reader has left or lags too far behind."""
        if self._gone.done():
            return False
        self._take(data)
        return self._size <= MAX_BEHIND_BYTES

    async def closed(self) -> None:
        """Return when the reader has left."""
        await asyncio.shield(self._gone)

    def push_event(self, type_: str, head: bytes, body: bytes) -> bool:
        """Queue an event by reference; the result is that of `push`."""
        if self._gone.done():
            return False
        self._add(EncodedEvent(type_, head, body))
        return self._size <= MAX_BEHIND_BYTES

    def _take(self, data: bytes) -> None:
        # The server writes whole lines, nearly always a single one.
        for line in filter(None, data.split(b"\n")):
            self._add(event_of_line(line))

    def _add(self, event: EncodedEvent) -> None:
        if self._keep is None or self._keep(event.type, event.body):
            self._events.append(event)
            self._size += len(event.body)
            self._wake(self._reader)

    # -- the reader's side

    async def next(self) -> EncodedEvent | None:
        """Return the next event; None at the end. Raises the producer's error behind the last."""
        while not self._events:
            if self._has_ended:
                if self._error is not None:
                    raise self._error
                return None
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        event = self._events.popleft()
        self._size -= len(event.body)
        if self._size <= _ROOM_BYTES:
            self._wake(self._room)
        return event

    def end(self) -> None:
        """Mark the end of the events."""
        self._has_ended = True
        self._wake(self._reader)

    def fail(self, error: Exception) -> None:
        """Record the producer's error."""
        self._error = error

    def leave(self) -> None:
        """Stop the producer: the reader leaves."""
        if not self._gone.done():
            self._gone.set_result(None)
        self._wake(self._room)

    @staticmethod
    def _wake(waiter: asyncio.Future[None] | None) -> None:
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
