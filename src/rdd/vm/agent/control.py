# SPDX-License-Identifier: Apache-2.0
"""`ha.sock`: HTTP over a unix socket that only its owner may use.

`GET /v1/info` is Lima's; `GET /v1/status` and `POST` to `/v1/let-go`, `/v1/suspend`, `/v1/disk`,
`/v1/wake` and `/v1/idle` are rdd's. A server for a few short requests parses a request line,
skips headers and writes a response with its length. An HTTP library would double the size of
the process.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from rdd.vm.forwarding.sockets import listen_unix

_MAX_HEAD_BYTES = 16 << 10
_MAX_BODY_BYTES = 64 << 10
_READ_S = 5.0
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed"}

ResponseBody = dict[str, Any]
Handler = Callable[[], Awaitable[ResponseBody]]
Routes = Mapping[str, Mapping[str, Handler]]
"""Handlers by path and method."""


class ControlSocket:
    """The HTTP interface of an agent."""

    def __init__(self, path: Path, routes: Routes) -> None:
        self._path = path
        self._routes = routes
        self._server: asyncio.AbstractServer | None = None
        self._inode = 0
        self._requests: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Raises HostError when another process uses the socket."""
        listener = listen_unix(self._path)
        self._inode = self._path.stat().st_ino
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=_MAX_HEAD_BYTES
        )

    async def close(self) -> None:
        """Finish the requests in progress and remove the socket."""
        if self._server is None:
            return
        self._server.close()
        if self._requests:
            await asyncio.wait(self._requests, timeout=1)
        try:
            if self._path.stat().st_ino == self._inode:  # otherwise it belongs to a successor
                self._path.unlink()
        except OSError:
            pass

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            async with asyncio.timeout(_READ_S):
                method, path = await _read_request(reader)
            code, body = await self._handle(method, path)
            writer.write(_response(code, body))
            await writer.drain()
        except (OSError, TimeoutError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # not a complete request, or the client has gone
        finally:
            self._requests.discard(task)
            writer.close()

    async def _handle(self, method: str, path: str) -> tuple[int, ResponseBody]:
        methods = self._routes.get(path.partition("?")[0])
        if methods is None:
            return 404, {"message": f"{path} does not exist"}
        handler = methods.get(method)
        if handler is None:
            return 405, {"message": f"{path} allows {', '.join(methods)}, not {method}"}
        return 200, await handler()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *headers = head.rstrip("\r\n").split("\r\n")
    method, path, _ = line.split(" ")
    for header in headers:
        name, _, value = header.partition(":")
        if name.lower() == "content-length":
            await reader.readexactly(min(int(value), _MAX_BODY_BYTES))
    return method, path


def _response(code: int, members: ResponseBody) -> bytes:
    body = json.dumps(members).encode() + b"\n"
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
