# SPDX-License-Identifier: Apache-2.0
"""Requests without a socket: what goes in, what comes out.

`Reply` is a complete answer, `WatchStream` an open watch. A watch is pumped by
a task into a queue, so the server's side behaves as with a socket: it pushes
without waiting, and learns that the client is gone when the stream is closed.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import orjson

from rdd.api.types import Object
from rdd.apiserver.http.request import AnyResponse, Query, Request, Stream, User, parse_query

QueryArgument = Mapping[str, object]

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
"""Who in-process requests are made by, unless another user is given."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer."""

    status: int
    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...]

    def json(self) -> Any:
        """The body, decoded."""
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    def header(self, name: str) -> str:
        """The first header of that name, or empty."""
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
    """A request as the in-process transport makes it.

    `path` may carry a query. Dicts and lists become JSON. Without a `user` and
    an Authorization header the request is the administrator's.
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


async def collect(answer: AnyResponse) -> Reply:
    """A whole answer, also of a stream that ends by itself."""
    if not isinstance(answer, Stream):
        body = answer.body
    else:
        sink = _Collector()
        await answer.produce(sink)
        body = b"".join(sink.pieces)
    return Reply(answer.status, body, answer.content_type, tuple(answer.headers or ()))


class _Collector:
    """A client that takes everything at once."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def push(self, data: bytes) -> bool:
        self.pieces.append(data)
        return True

    async def closed(self) -> None:
        await asyncio.get_running_loop().create_future()


class WatchStream:
    """An open watch: an async iterator of events, also an async context manager.

    Iteration ends when the server ends the watch, and raises ConnectionError
    when it is cut.
    """

    def __init__(self, stream: Stream) -> None:
        self.headers = tuple(stream.headers or ())
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._rest = b""
        self._is_gone = asyncio.Event()
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

    # The server's side (request.Writer).

    async def write(self, data: bytes) -> None:
        """Take data."""
        if self._is_gone.is_set():
            raise ConnectionResetError("the client is gone")
        self._take(data)

    def push(self, data: bytes) -> bool:
        """Take data; False when the client is gone."""
        if self._is_gone.is_set():
            return False
        self._take(data)
        return True

    async def closed(self) -> None:
        """Return when the client is gone."""
        await self._is_gone.wait()

    def _take(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for text in lines:
            self._queue.put_nowait(text)

    # The client's side.

    async def next(self, *, timeout_s: float = 10.0) -> Object:
        """The next event; StopAsyncIteration at the end, TimeoutError if there is none in time."""
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
        """The next `count` events."""
        return [await self.next(timeout_s=timeout_s) for _ in range(count)]

    async def rest(self, *, timeout_s: float = 10.0) -> list[Object]:
        """All events up to the end of the watch."""
        async with asyncio.timeout(timeout_s):
            return [event async for event in self]

    async def __aiter__(self) -> AsyncIterator[Object]:
        while True:
            try:
                yield await self.next(timeout_s=float("inf"))
            except StopAsyncIteration:
                return

    async def close(self) -> None:
        """Leave, as a client that closes its connection."""
        self._is_gone.set()
        if not self._task.done():
            await asyncio.wait([self._task], timeout=1.0)
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
