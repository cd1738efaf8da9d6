# SPDX-License-Identifier: Apache-2.0
"""The API on a port without TLS, and raw connections to it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.http.client import Api

from rdd.apiserver.http.listener import HttpServer


@dataclass(frozen=True, slots=True)
class Answered:
    """A response as raw bytes."""

    status: int
    head: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """A server on a port without TLS, and raw connections to it."""

    def __init__(self, api: Api, http: HttpServer, port: int) -> None:
        self.api = api
        self.http = http
        self.port = port
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(
        self, *, receive_bytes: int = 0
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 26)
        self.writers.append(writer)
        return reader, writer

    def head(self, method: str, path: str, extra: str = "") -> bytes:
        token = self.api.server.tokens["admin"]
        return (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\n{extra}\r\n"
        ).encode()

    async def send(self, method: str, path: str, body: bytes = b"", extra: str = "") -> Answered:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        return await self.exchange(self.head(method, path, length + extra) + body)

    async def exchange(self, data: bytes) -> Answered:
        """Send bytes on a new connection and read one response."""
        reader, writer = await self.connect()
        try:
            writer.write(data)
            return await read_answer(reader)
        finally:
            writer.close()

    @property
    def watch_count(self) -> int:
        return self.api.server.running.core.watch_count


async def read_answer(reader: asyncio.StreamReader) -> Answered:
    """Read one response with a length, or everything up to the end of the connection."""
    async with asyncio.timeout(120):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        status = int(head.split()[1])
        for line in head.split("\r\n"):
            if line.lower().startswith("content-length:"):
                return Answered(status, head, await reader.readexactly(int(line.split(":")[1])))
        return Answered(status, head, await reader.read())


async def read_chunk(reader: asyncio.StreamReader) -> bytes:
    """Read one chunk of a streamed response; empty at its end."""
    async with asyncio.timeout(120):
        size = int(await reader.readline(), 16)
        data = await reader.readexactly(size)
        await reader.readexactly(2)
        return data


async def eventually(condition: Callable[[], bool]) -> None:
    """Run both sides of a connection until a condition is true."""
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110  (what is waited for is a socket's doing)
            await asyncio.sleep(0.001)


@asynccontextmanager
async def on_the_wire(api: Api) -> AsyncIterator[Wire]:
    listener = socket.create_server(("127.0.0.1", 0))
    http = HttpServer(api.server)
    await http.listen(listener, None)
    raw = Wire(api, http, listener.getsockname()[1])
    yield raw
    for writer in raw.writers:
        if not writer.transport.is_closing():
            writer.transport.abort()
    await http.close(timeout_s=1)
    await asyncio.gather(*(w.wait_closed() for w in raw.writers), return_exceptions=True)
    listener.close()
