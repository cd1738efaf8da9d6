# SPDX-License-Identifier: Apache-2.0
"""Webhooks in this process.

A controller with admission rules registers its endpoint under a URL that contains an identifier of
this run:

    server.endpoints.register(f"https://127.0.0.1:{port}/{run_id}", handler)

Configuration objects with a URL below that prefix are then called without a socket, so that the
network cannot make admission fail. A configuration that remains from an earlier run never reaches
another process on that port, because its prefix does not match. Every other URL is called over
HTTPS.

A handler may send requests to the server. They are part of the write that waits for them, so they
carry its depth plus one: `Request(depth=request.depth + 1)`, or `depth.get()` for transports that
have no access to the request.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from rdd.apiserver.http.request import Request

Handler = Callable[[dict[str, Any], Request], Awaitable[dict[str, Any]]]
"""Handles an AdmissionReview; the request is the one that waits for the response."""

depth: ContextVar[int] = ContextVar("rdd_admission_depth", default=0)
"""The nesting depth of admission calls in the current task; its requests must carry it."""


class InProcessEndpoints:
    """Handlers by URL prefix."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def register(self, url_prefix: str, handler: Handler) -> None:
        """Call a handler for every webhook URL at or below a prefix."""
        self._handlers[url_prefix.rstrip("/")] = handler

    def unregister(self, url_prefix: str) -> None:
        """Remove the handler of a prefix; its URLs are called over HTTPS again."""
        self._handlers.pop(url_prefix.rstrip("/"), None)

    def find(self, url: str) -> Handler | None:
        """Return the handler of the longest prefix of a URL that ends at a path segment."""
        prefix = url.rstrip("/")
        while len(prefix) > len("https://"):
            handler = self._handlers.get(prefix)
            if handler is not None:
                return handler
            prefix = prefix.rpartition("/")[0]
        return None
