# SPDX-License-Identifier: Apache-2.0
"""Complete responses of simple handlers."""

from http import HTTPStatus

from rdd.http.exchange import Exchange
from rdd.http.headers import HeaderList

TEXT = "text/plain; charset=utf-8"
PHRASES = {status.value: status.phrase for status in HTTPStatus}


def failure_text(status: int, reason: str) -> bytes:
    """Return the text of a response to a request that no handler sees."""
    return f"{status} {PHRASES.get(status, '')}: {reason}\n".encode()


class Response:
    """A complete response."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes,
        *,
        content_type: str = "application/json",
        headers: HeaderList | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers

    @classmethod
    def text(cls, text: str, *, status: int = 200, headers: HeaderList | None = None) -> "Response":
        """Return a response with plain text."""
        return cls(status, text.encode(), content_type=TEXT, headers=headers)

    def send(self, exchange: Exchange) -> None:
        """Send the response."""
        headers = [("Content-Type", self.content_type)] if self.content_type else []
        exchange.send(self.status, headers + (self.headers or []), self.body)
