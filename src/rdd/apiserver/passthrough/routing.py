# SPDX-License-Identifier: Apache-2.0
"""`/passthrough/<controller>/<endpoint>/<rest>`: requests that somebody else answers.

The server authenticates and authorises a request (by RBAC rules with
nonResourceURLs), finds who registered the endpoint, and hands the connection over:
from there on nothing is read ahead, buffered or counted as in flight. Who registers
is none of its business; a handler may be a function of this process or a proxy
(see passthrough_proxy).

What a controller offers that is known but has nothing registered at the moment is
unavailable (503); everything else that is not registered is not found (404).
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rdd.api import errors, names
from rdd.apiserver.http.request import AnyResponse, Hijack, Request

if TYPE_CHECKING:
    from aiohttp import web

Handler = Callable[["web.BaseRequest", str], Awaitable["web.StreamResponse"]]
"""Answers a request; the text is the rest of the path, decoded, with a slash at its front."""


_Key = tuple[str, str]
_MAX_KNOWN = 1000
# Whose request it is, the server has found out; nobody behind it can use this for anything good.
_CREDENTIALS = ("authorization", "impersonate-")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class PassthroughRoutes:
    """The endpoints there are, by controller and name."""

    def __init__(self) -> None:
        self._handlers: dict[_Key, Handler] = {}
        self._known: dict[str, None] = {}
        self._active: dict[asyncio.Task[object], Handler] = {}

    def expect(self, controller: str) -> None:
        """Know that a controller will offer something."""
        self._known[controller] = None
        if len(self._known) > _MAX_KNOWN:
            del self._known[next(iter(self._known))]

    def register(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Call a handler for an endpoint; the last one registered counts."""
        self._handlers[controller, endpoint] = handler
        self.expect(controller)

    def unregister(self, controller: str, endpoint: str, handler: Handler) -> None:
        """Call it no more, and end what it is at; another's registration stays."""
        key = (controller, endpoint)
        if self._handlers.get(key) == handler:
            del self._handlers[key]
        for task, its in list(self._active.items()):
            if its == handler:
                task.cancel()

    async def handle(self, request: Request) -> AnyResponse:
        """Hand the request over to whom its path names."""
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
        if controller not in self._known or is_running:
            return errors.NotFound(f'passthrough "{controller}/{endpoint}" not found')
        return errors.ServiceUnavailable(
            f'passthrough "{controller}/{endpoint}" is not available: '
            "the controller is not running",
            retry_after_s=1,
        )

    async def _serve(
        self, handler: Handler, rest: str, http: "web.BaseRequest"
    ) -> "web.StreamResponse":
        if http.headers.get("Expect", "").lower() == "100-continue":
            transport = http.transport
            if transport is not None:
                transport.write(_CONTINUE)
        headers = http.headers.copy()
        for name in set(headers):
            if name.lower().startswith(_CREDENTIALS):
                del headers[name]
        task = asyncio.current_task()
        assert task is not None
        self._active[task] = handler
        try:
            return await handler(http.clone(headers=headers), rest)
        finally:
            del self._active[task]
