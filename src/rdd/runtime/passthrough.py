# SPDX-License-Identifier: Apache-2.0
"""HTTP and WebSocket endpoints of controllers: `/passthrough/<controller>/<endpoint>/…`.

    async def logs(exchange: Exchange, rest: str) -> Response | None:
        socket = WebSocket.accept(exchange)
        await socket.send(b"…")
        await socket.close()
        return None

    Controller("engine", …, passthroughs={"logs": logs})

Clients connect to the API server, which authenticates and authorises them before it calls a
handler; credentials do not reach the handler. A handler gets the exchange (`rdd.http`) and may
return a response, stream or upgrade. It is the same whether its controller runs in the daemon or in
another process:

    InProcessPassthrough    the server calls the handler, on the client's connection
    HttpPassthrough         the server connects to a port and sends a secret

A handler is cancelled when its client disconnects, and when its controller stops or another
process acquires the controller.
"""

import asyncio
import hmac
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from rdd.api import names

if TYPE_CHECKING:
    from rdd.http.exchange import Exchange
    from rdd.http.responses import Response
    from rdd.http.server import Server

Handler = Callable[["Exchange", str], Awaitable["Response | None"]]
"""Handles a request; the text is the rest of the path, decoded, with a leading slash.

It returns a response, or None after it has answered through the exchange.
"""

CHALLENGE = "Rdd-Passthrough"
"""The challenge in the response to a request without the secret."""


class PassthroughHost(Protocol):
    """Receives requests for controllers."""

    async def start(self) -> None:
        """Listen; return when reachable."""
        ...

    def expect(self, controller: str) -> None:
        """Announce a controller whose endpoints are added later."""
        ...

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Route an endpoint to a handler."""
        ...

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Remove a route and cancel its requests."""
        ...

    async def stop(self) -> None:
        """Stop listening."""
        ...


class Passthroughs(Protocol):
    """The passthrough endpoints of a server in the same process."""

    def expect(self, controller: str, /) -> None:
        """Announce a controller whose endpoints are registered later."""
        ...

    def register(self, controller: str, endpoint: str, handler: Handler, /) -> None:
        """Route an endpoint to a handler; a later registration replaces it."""
        ...

    def unregister(self, controller: str, endpoint: str, handler: Handler, /) -> None:
        """Remove the route and cancel its requests, unless another handler replaced it."""
        ...


class InProcessPassthrough:
    """Handlers that the server of this process calls."""

    def __init__(self, passthroughs: Passthroughs) -> None:
        self._passthroughs = passthroughs

    async def start(self) -> None:
        """Do nothing: there is no socket."""

    def expect(self, controller: str) -> None:
        self._passthroughs.expect(controller)

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        self._passthroughs.register(controller, endpoint, handler)

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        self._passthroughs.unregister(controller, endpoint, handler)

    async def stop(self) -> None:
        """Do nothing: all endpoints have been removed."""


class HttpPassthrough:
    """Handlers on a bound loopback socket; requests need a secret."""

    def __init__(self, sock: socket.socket, *, secret: str) -> None:
        self._socket = sock
        self.secret = secret
        self.url = f"http://localhost:{sock.getsockname()[1]}/"
        """Prefix of the paths `<controller>/<endpoint>/…`."""
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._active: dict[asyncio.Task[Response | None], Handler] = {}
        self._server: Server | None = None

    async def start(self) -> None:
        from rdd.http.server import Server

        self._server = Server(self._handle, http2=False)  # its only client is the proxy
        await self._server.listen(self._socket)

    def expect(self, controller: str) -> None:
        """Do nothing: early requests get 503 in any case."""

    def add(self, controller: str, endpoint: str, handler: Handler) -> None:
        self._handlers[controller, endpoint] = handler

    def remove(self, controller: str, endpoint: str, handler: Handler) -> None:
        if self._handlers.get((controller, endpoint)) is handler:
            del self._handlers[controller, endpoint]
        for task, its in self._active.items():
            if its is handler:
                task.cancel()

    async def stop(self) -> None:
        """Close the socket and cancel all requests."""
        for task in self._active:
            task.cancel()
        server, self._server = self._server, None
        if server is not None:
            await server.close(timeout_s=1.0)
        self._socket.close()

    async def _handle(self, exchange: "Exchange") -> None:
        response = await self._respond(exchange)
        if response is not None:
            response.send(exchange)
            await exchange.drain()

    async def _respond(self, exchange: "Exchange") -> "Response | None":
        from rdd.http.responses import Response

        shown = exchange.headers.get(names.PASSTHROUGH_SECRET_HEADER)
        if not hmac.compare_digest(shown.encode("utf-8", "replace"), self.secret.encode()):
            return Response.text(
                "send requests for controllers to the API server\n",
                status=401,
                headers=[("WWW-Authenticate", CHALLENGE)],
            )
        controller, endpoint, rest = split_path(exchange.path)
        handler = self._handlers.get((controller, endpoint))
        if handler is None:
            return Response.text(f"{controller} does not run here\n", status=503)
        exchange.headers = exchange.headers.without({names.PASSTHROUGH_SECRET_HEADER.lower()})
        task = asyncio.get_running_loop().create_task(
            _called(handler, exchange, rest), name=f"rdd-passthrough {controller}/{endpoint}"
        )
        self._active[task] = handler
        exchange.on_lost = task.cancel
        try:
            await asyncio.wait({task})
        finally:
            del self._active[task]
            task.cancel()
        if task.cancelled():
            raise ConnectionResetError("the controller has stopped")
        return task.result()


async def _called(handler: Handler, exchange: "Exchange", rest: str) -> "Response | None":
    return await handler(exchange, rest)


def split_path(path: str) -> tuple[str, str, str]:
    """Return controller, endpoint and rest of `/<controller>/<endpoint>/<rest>`.

    The rest is decoded and starts with a slash; the names are not decoded.
    """
    controller, _, remainder = path.removeprefix("/").partition("/")
    endpoint, _, rest = remainder.partition("/")
    return controller, endpoint, "/" + unquote(rest)
