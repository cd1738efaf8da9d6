# SPDX-License-Identifier: Apache-2.0
"""`ha.sock`: HTTP over a unix socket that only its owner may use.

`GET /v1/info` is Lima's; `GET /v1/status` and `POST /v1/let-go` are ours. A server for three
short requests needs a request line, headers to skip and an answer with its length: written by
hand, it costs nothing, where an HTTP library would double the size of the process.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from rdd.vm.forwarding.sockets import listen_unix

_LONGEST_HEAD = 16 << 10
_LONGEST_BODY = 64 << 10
_READ_S = 5.0
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed"}

Answer = dict[str, Any]
Handler = Callable[[], Awaitable[Answer]]
Routes = Mapping[str, Mapping[str, Handler]]
"""By path and method."""


class ControlSocket:
    """The HTTP interface of an agent."""

    def __init__(self, path: Path, routes: Routes) -> None:
        self._path = path
        self._routes = routes
        self._server: asyncio.AbstractServer | None = None
        self._inode = 0
        self._answering: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen. Raises HostError when somebody else has the socket."""
        listener = listen_unix(self._path)
        self._inode = self._path.stat().st_ino
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=_LONGEST_HEAD
        )

    async def close(self) -> None:
        """Finish the answers that are being given and remove the socket."""
        if self._server is None:
            return
        self._server.close()
        if self._answering:
            await asyncio.wait(self._answering, timeout=1)
        try:
            if self._path.stat().st_ino == self._inode:  # not that of a successor
                self._path.unlink()
        except OSError:
            pass

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._answering.add(task)
        try:
            async with asyncio.timeout(_READ_S):
                method, path = await _read_request(reader)
            code, answer = await self._answer(method, path)
            writer.write(_response(code, answer))
            await writer.drain()
        except (OSError, TimeoutError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # no request that could be answered
        finally:
            self._answering.discard(task)
            writer.close()

    async def _answer(self, method: str, path: str) -> tuple[int, Answer]:
        methods = self._routes.get(path.partition("?")[0])
        if methods is None:
            return 404, {"message": f"there is no {path}"}
        handler = methods.get(method)
        if handler is None:
            return 405, {"message": f"{path} takes {', '.join(methods)}, not {method}"}
        return 200, await handler()


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, str]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *headers = head.rstrip("\r\n").split("\r\n")
    method, path, _ = line.split(" ")
    for header in headers:
        name, _, value = header.partition(":")
        if name.lower() == "content-length":
            await reader.readexactly(min(int(value), _LONGEST_BODY))
    return method, path


def _response(code: int, answer: Answer) -> bytes:
    body = json.dumps(answer).encode() + b"\n"
    head = (
        f"HTTP/1.1 {code} {_REASONS[code]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
