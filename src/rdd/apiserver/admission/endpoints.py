# SPDX-License-Identifier: Apache-2.0
"""Webhooks that live in this process.

A controller that brings admission rules registers its endpoint here under a URL
that contains something only this run knows:

    server.endpoints.register(f"https://127.0.0.1:{port}/{run_id}", handler)

Configuration objects with a URL below that prefix are then called without a
socket, so admission cannot fail for lack of one; and a configuration left over
from an earlier run never reaches whoever has that port today, because the
prefix does not match. Any other URL goes over HTTPS.

A handler may make requests to the server. They belong to the write that waits
for them, so they carry its depth plus one: `Request(depth=request.depth + 1)`,
or `depth.get()` for transports that do not see the request.
"""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from rdd.apiserver.http.request import Request

Handler = Callable[[dict[str, Any], Request], Awaitable[dict[str, Any]]]
"""Answers an AdmissionReview; the request is the one that waits for the answer."""

depth: ContextVar[int] = ContextVar("rdd_admission_depth", default=0)
"""How many admission calls the current task is nested in, as requests made in it must say."""


class InProcessEndpoints:
    """Handlers by the prefix of their URL."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}

    def register(self, url_prefix: str, handler: Handler) -> None:
        """Call a handler for every webhook URL at or below a prefix."""
        self._handlers[url_prefix.rstrip("/")] = handler

    def unregister(self, url_prefix: str) -> None:
        """Let URLs below a prefix go over HTTPS again."""
        self._handlers.pop(url_prefix.rstrip("/"), None)

    def find(self, url: str) -> Handler | None:
        """The handler of the longest prefix of a URL that ends where a path segment does."""
        prefix = url.rstrip("/")
        while len(prefix) > len("https://"):
            handler = self._handlers.get(prefix)
            if handler is not None:
                return handler
            prefix = prefix.rpartition("/")[0]
        return None
