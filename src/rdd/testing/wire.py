# SPDX-License-Identifier: Apache-2.0
"""Requests and responses without a socket.

`Reply` is a complete response, `WatchStream` an open watch. A task writes a
watch into a queue, so the server behaves as with a socket: it writes without
waiting and detects a disconnect when the stream is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import orjson

from rdd.api.types import Object
from rdd.apiserver.http.request import AnyResponse, Request, Stream, User
from rdd.http.exchange import Query, parse_query

QueryArgument = Mapping[str, object]

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
"""The default user of in-process requests."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete response."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...]

    def json(self) -> Any:
        """Return the decoded body."""
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def header(self, name: str) -> str:
        """Return the first header of a name, or an empty string."""
        return next((v for n, v in self.headers if n.lower() == name.lower()), "")

    @property
    def warnings(self) -> list[str]:
        """The texts of the Warning headers."""
        texts = [v.partition(' - "')[2][:-1] for n, v in self.headers if n == "Warning"]
        return [t.replace('\\"', '"').replace("\\\\", "\\") for t in texts]


def make_request(
    method: str,
    path: str,
    body: Object | list[Any] | bytes | str | None = None,
    *,
    query: QueryArgument | None = None,
    content_type: str = "",
    headers: Mapping[str, str] | None = None,
    user: User | None = None,
) -> Request:
    """Return an in-process request.

    `path` may contain a query. Dicts and lists become JSON. Without a `user` and
    an Authorization header the user is the administrator.
    """
    path, _, text = path.partition("?")
    parsed: Query = parse_query(text)
    for name, value in (query or {}).items():
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        parsed.setdefault(name, []).append(shown)
    sent = dict(headers or {})
    if body is None:
        data = b""
    else:
        data = _encoded(body)
        sent.setdefault("Content-Type", content_type or "application/json")
    if user is None and "Authorization" not in sent:
        user = ADMIN
    return Request(method, path, query=parsed, headers=sent, body=data, user=user)


def _encoded(body: Object | list[Any] | bytes | str) -> bytes:
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else orjson.dumps(body)


async def collect(response: AnyResponse) -> Reply:
    """Return the complete response, also of a stream that ends."""
    if not isinstance(response, Stream):
        body = response.body
    else:
        sink = _Collector()
        await response.produce(sink)
        body = b"".join(sink.chunks)
    return Reply(response.status, body, response.content_type, tuple(response.headers or ()))


class _Collector:
    """A writer that collects everything."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.chunks.append(data)

    def push(self, data: bytes) -> bool:
        self.chunks.append(data)
        return True

    async def closed(self) -> None:
        await asyncio.get_running_loop().create_future()


class WatchStream:
    """An open watch: an async iterator of events and an async context manager.

    Iteration ends when the server ends the watch; it raises ConnectionError
    when the connection breaks.
    """

    def __init__(self, stream: Stream) -> None:
        self.headers = tuple(stream.headers or ())
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest = b""
        self._disconnected = asyncio.Event()
        self._error: BaseException | None = None
        self._task = asyncio.get_running_loop().create_task(
            self._run(stream), name="rdd-testing-watch"
        )

    async def _run(self, stream: Stream) -> None:
        try:
            await stream.produce(self)
        except ConnectionError as e:
            self._error = e
        finally:
            self._queue.put_nowait(None)

    # -- the writer of the server (ResponseWriter)

    async def write(self, data: bytes) -> None:
        """Receive data."""
        if self._disconnected.is_set():
            raise ConnectionResetError("the client has disconnected")
        self._receive(data)

    def push(self, data: bytes) -> bool:
        """Receive data; return False if the client has disconnected."""
        if self._disconnected.is_set():
            return False
        self._receive(data)
        return True

    async def closed(self) -> None:
        """Return when the client has disconnected."""
        await self._disconnected.wait()

    def _receive(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for text in lines:
            self._queue.put_nowait(text)

    # -- the client

    async def next(self, *, timeout_s: float = 10.0) -> Object:
        """Return the next event; raise StopAsyncIteration at the end, TimeoutError if late."""
        async with asyncio.timeout(timeout_s):
            text = await self._queue.get()
        if text is None:
            self._queue.put_nowait(None)
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        event: Object = orjson.loads(text)
        return event

    async def take(self, count: int, *, timeout_s: float = 10.0) -> list[Object]:
        """Return the next `count` events."""
        return [await self.next(timeout_s=timeout_s) for _ in range(count)]

    async def rest(self, *, timeout_s: float = 10.0) -> list[Object]:
        """Return all events up to the end of the watch."""
        async with asyncio.timeout(timeout_s):
            return [event async for event in self]

    async def __aiter__(self) -> AsyncIterator[Object]:
        while True:
            try:
                yield await self.next(timeout_s=float("inf"))
            except StopAsyncIteration:
                return

    async def close(self) -> None:
        """Disconnect."""
        self._disconnected.set()
        if not self._task.done():
            await asyncio.wait([self._task], timeout=1.0)
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
