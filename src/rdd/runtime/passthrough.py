# SPDX-License-Identifier: Apache-2.0
"""HTTP and WebSocket endpoints of controllers: `/passthrough/<controller>/<endpoint>/…`.

    async def logs(request: web.BaseRequest, rest: str) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_bytes(b"…")
        await socket.close()
        return socket

    Controller("engine", …, passthroughs={"logs": logs})

Clients speak to the API server, which has authenticated and authorised them before
a handler hears of it; credentials do not reach the handler. A handler gets
aiohttp's own request and may answer, stream or upgrade as it likes. It is the same
whether its controller runs in the daemon or in a program of its own:

    InProcessPassthrough    the server calls the handler, on the client's connection
    HttpPassthrough         the server connects to a port and shows a secret

A handler is cancelled when its client goes away, and when its controller stops or
belongs to another process.
"""

import asyncio
import hmac
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from rdd.api import names

if TYPE_CHECKING:
    from aiohttp import web

log = logging.getLogger("rdd.runtime")

Handler = Callable[["web.BaseRequest", str], Awaitable["web.StreamResponse"]]
"""Answers a request; the text is the rest of the path, decoded, with a slash at its front."""

REFUSAL = "Rdd-Passthrough"
"""The challenge in the answer to a request without the secret."""


class PassthroughHost(Protocol):
    """A place where the requests for controllers arrive."""

    async def start(self) -> None:
        """Be reachable when this returns."""
        ...

    def expect(self, controller: str) -> None:
        """Know that a controller has endpoints, which are not there yet."""
        ...

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Let a handler answer for an endpoint."""
        ...

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Do so no more; requests under way are ended."""
        ...

    async def stop(self) -> None:
        """Be reachable no more."""
        ...


class Passthroughs(Protocol):
    """The endpoints of a server in the same process."""

    def expect(self, controller: str, /) -> None:
        """Know that a controller will offer something."""
        ...

    def register(self, controller: str, endpoint: str, handler: Handler, /) -> None:
        """Call a handler for an endpoint; the last one registered counts."""
        ...

    def unregister(self, controller: str, endpoint: str, handler: Handler, /) -> None:
        """Call it no more, and end what it is at; another's registration stays."""
        ...


class InProcessPassthrough:
    """Handlers called by the server of this process."""

    def __init__(self, passthroughs: Passthroughs) -> None:
        self._passthroughs = passthroughs

    async def start(self) -> None:
        """Nothing has to be listened on."""

    def expect(self, controller: str) -> None:
        """Know that a controller has endpoints, which are not there yet."""
        self._passthroughs.expect(controller)

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Let a handler answer for an endpoint."""
        self._passthroughs.register(controller, endpoint, handler)

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Do so no more; requests under way are ended."""
        self._passthroughs.unregister(controller, endpoint, handler)

    async def stop(self) -> None:
        """Nothing is left when all endpoints are removed."""


class HttpPassthrough:
    """Handlers on a bound loopback socket, for those who know a secret."""

    def __init__(self, sock: socket.socket, *, secret: str) -> None:
        self._socket = sock
        self.secret = secret
        self.url = f"http://localhost:{sock.getsockname()[1]}/"
        """What paths `<controller>/<endpoint>/…` are appended to."""
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._active: dict[asyncio.Task[web.StreamResponse], Handler] = {}
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        from aiohttp import web

        self._server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._server, sock=self._socket)

    def expect(self, controller: str) -> None:
        """Who asks too early hears that the controller does not run here anyway."""

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Let a handler answer for an endpoint."""
        self._handlers[controller, endpoint] = handler

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Do so no more; requests under way are ended."""
        if self._handlers.get((controller, endpoint)) is handler:
            del self._handlers[controller, endpoint]
        for task, its in self._active.items():
            if its is handler:
                task.cancel()

    async def stop(self) -> None:
        """Close the socket and end what is under way."""
        for task in self._active:
            task.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        server, self._server = self._server, None
        if server is not None:
            await server.shutdown(1.0)
        self._socket.close()

    async def _handle(self, request: "web.BaseRequest") -> "web.StreamResponse":
        from aiohttp import web

        shown = request.headers.get(names.PASSTHROUGH_SECRET_HEADER, "")
        if not hmac.compare_digest(shown.encode(), self.secret.encode()):
            return web.Response(
                status=401,
                headers={"WWW-Authenticate": REFUSAL},
                text="requests for controllers go through the API server\n",
            )
        controller, endpoint, rest = split(request.raw_path.partition("?")[0])
        handler = self._handlers.get((controller, endpoint))
        if handler is None:
            return web.Response(status=503, text=f"{controller} does not run here\n")
        headers = request.headers.copy()
        del headers[names.PASSTHROUGH_SECRET_HEADER]
        task = asyncio.get_running_loop().create_task(
            _called(handler, request.clone(headers=headers), rest),
            name=f"rdd-passthrough {controller}/{endpoint}",
        )
        self._active[task] = handler
        try:
            await asyncio.wait({task})
        finally:
            del self._active[task]
            task.cancel()
        if task.cancelled():
            raise ConnectionResetError("the controller has stopped")
        return task.result()


async def _called(handler: Handler, request: "web.BaseRequest", rest: str) -> "web.StreamResponse":
    return await handler(request, rest)


def split(path: str) -> tuple[str, str, str]:
    """Controller, endpoint and rest of `/<controller>/<endpoint>/<rest>`.

    The rest is decoded and begins with a slash; names are taken as they are.
    """
    controller, _, remainder = path.removeprefix("/").partition("/")
    endpoint, _, rest = remainder.partition("/")
    return controller, endpoint, "/" + unquote(rest)
