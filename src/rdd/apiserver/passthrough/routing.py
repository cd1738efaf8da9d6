# SPDX-License-Identifier: Apache-2.0
"""`/passthrough/<controller>/<endpoint>/<rest>`: requests that controllers serve.

The server authenticates and authorises a request (by RBAC rules with
nonResourceURLs), looks up the handler of the endpoint and passes it the connection:
from then on nothing is read ahead, buffered or counted as in flight. A handler is a
function of this process or a proxy (see proxy.py).

An endpoint of an expected controller that has registered nothing is unavailable
(503); any other endpoint that is not registered is not found (404).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import unquote

from rdd.api import errors, names
from rdd.apiserver.auth import websocket_token
from rdd.apiserver.http.request import AnyResponse, Hijack, Request
from rdd.http.exchange import Exchange
from rdd.http.headers import Headers
from rdd.http.responses import Response

Handler = Callable[[Exchange, str], Awaitable[Response | None]]
"""Serves a request; the second argument is the rest of the path, decoded, with a leading slash.

It returns a response, or None after it has answered through the exchange.
"""

_Key = tuple[str, str]
_MAX_EXPECTED = 1000
# The server has authenticated the request; handlers must not see the credentials.
_CREDENTIALS = ("authorization", "impersonate-")
_FORWARDED = "X-Forwarded-For"


class PassthroughRoutes:
    """The registered endpoints, by controller and name."""

    def __init__(self) -> None:
        self._handlers: dict[_Key, Handler] = {}
        self._expected: dict[str, None] = {}
        self._active: dict[asyncio.Task[object], Handler] = {}

    def expect(self, controller: str) -> None:
        """Expect registrations of a controller: until then its endpoints are unavailable."""
        self._expected[controller] = None
        if len(self._expected) > _MAX_EXPECTED:
            del self._expected[next(iter(self._expected))]

    def register(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Register the handler of an endpoint; it replaces an earlier one."""
        self._handlers[controller, endpoint] = handler
        self.expect(controller)

    def unregister(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Remove a handler and cancel its requests; a newer registration stays."""
        key = (controller, endpoint)
        if self._handlers.get(key) == handler:
            del self._handlers[key]
        for task, active in list(self._active.items()):
            if active == handler:
                task.cancel()

    async def handle(self, request: Request) -> AnyResponse:
        """Pass the connection to the handler of the path."""
        controller, _, remainder = request.path.removeprefix(names.PASSTHROUGH_PREFIX).partition(
            "/"
        )
        endpoint, _, rest = remainder.partition("/")
        handler = self._handlers.get((controller, endpoint))
        if handler is None:
            raise self._missing(controller, endpoint)
        return Hijack(partial(self._serve, handler, "/" + unquote(rest)))

    def _missing(self, controller: str, endpoint: str) -> errors.ApiError:
        is_running = any(name == controller for name, _ in self._handlers)
        if controller not in self._expected or is_running:
            return errors.NotFound(f'passthrough "{controller}/{endpoint}" not found')
        return errors.ServiceUnavailable(
            f'passthrough "{controller}/{endpoint}" is not available: '
            "the controller is not running",
            retry_after_s=1,
        )

    async def _serve(self, handler: Handler, rest: str, exchange: Exchange) -> None:
        exchange.headers = _forwarded(exchange)
        task = asyncio.current_task()
        assert task is not None
        self._active[task] = handler
        try:
            response = await handler(exchange, rest)
            if response is not None:
                response.send(exchange)
                await exchange.drain()
        finally:
            del self._active[task]


def _forwarded(exchange: Exchange) -> Headers:
    """Return the headers for a handler: without credentials, with the client's address."""
    given = exchange.headers
    before = ", ".join(given.getall(_FORWARDED))
    hidden = {_FORWARDED.lower(), websocket_token.HEADER.lower()}
    pairs = list(given.without(hidden, prefixes=_CREDENTIALS).pairs)
    pairs.append((_FORWARDED, f"{before}, {exchange.remote}" if before else exchange.remote))
    if websocket_token.HEADER in given:
        pairs.append((websocket_token.HEADER, websocket_token.without_token(given)))
    return Headers(pairs)
