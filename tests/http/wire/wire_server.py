# SPDX-License-Identifier: Apache-2.0
"""A server of `rdd.http` with a handler that shows what it received, and raw connections to it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from rdd.http.body import BodyError
from rdd.http.exchange import Exchange, Handler
from rdd.http.limits import WireLimits
from rdd.http.server import Server

DEADLINE_S = 120


class RawConnection:
    """A client connection on which tests write bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers (in lower case) and body of the next response."""
        async with asyncio.timeout(DEADLINE_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.strip().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in lines[1:])
            }
            status = int(lines[0].split()[1])
            length = int(headers.get("content-length", "0"))
            return status, headers, await self.reader.readexactly(length)

    async def rest(self) -> bytes:
        """Return everything up to the end of the connection."""
        async with asyncio.timeout(DEADLINE_S):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


class WireServer:
    """The server and what its handler saw."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.seen: list[dict[str, Any]] = []
        self.connections: list[RawConnection] = []

    async def connect(self, *, receive_bytes: int = 0) -> RawConnection:
        sock = socket.socket()
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        connection = RawConnection(*await asyncio.open_connection(sock=sock, limit=1 << 24))
        self.connections.append(connection)
        return connection

    async def show(self, exchange: Exchange) -> None:
        """Answer with the request; paths under /refuse/ are refused without their body."""
        if exchange.path.startswith("/refuse/"):
            exchange.send(403, [], b"no")
            return
        try:
            body = await exchange.body.read(limit=1 << 24)
        except BodyError as error:
            exchange.send(400, [], type(error).__name__.encode())
            return
        seen = {
            "method": exchange.method,
            "target": exchange.target,
            "headers": [[name.lower(), value] for name, value in exchange.headers.items()],
            "body": body.decode("latin-1"),
        }
        self.seen.append(seen)
        exchange.send(200, [("Content-Type", "application/json")], json.dumps(seen).encode())


@asynccontextmanager
async def serving(
    handler: Handler | None = None, *, limits: WireLimits | None = None
) -> AsyncIterator[WireServer]:
    wire: WireServer

    async def handle(exchange: Exchange) -> None:
        await (handler or wire.show)(exchange)

    server = Server(handle, limits=limits)
    sock = socket.create_server(("127.0.0.1", 0))
    wire = WireServer(server, sock.getsockname()[1])
    await server.listen(sock)
    try:
        yield wire
    finally:
        for connection in wire.connections:
            if not connection.writer.transport.is_closing():
                connection.writer.transport.abort()
        await server.close(timeout_s=1)
        await asyncio.gather(
            *(connection.writer.wait_closed() for connection in wire.connections),
            return_exceptions=True,
        )
