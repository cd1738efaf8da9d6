# SPDX-License-Identifier: Apache-2.0
"""One gRPC call: the request that is still to be sent, and the response.

A message on the wire is a zero byte (not compressed), four bytes of length and the message. The
outcome of a call is in its trailers. `UnaryCall` has one response and a future for it,
`StreamCall` a queue of responses.
"""

import asyncio
from collections.abc import Mapping
from urllib.parse import unquote

from rdd.grpc.errors import (
    GrpcError,
    GrpcFailure,
    GrpcProtocolError,
    MessageTooLarge,
)

MAX_MESSAGE = 64 * 1024 * 1024
PREFIX_BYTES = 5


def framed(message: bytes) -> bytes:
    """Return a message with the prefix that frames it."""
    return b"\0" + len(message).to_bytes(4, "big") + message


class Call:
    """A call in progress."""

    __slots__ = ("_buffer", "_headers", "credit", "ends_stream", "is_over", "unsent", "window")

    def __init__(self) -> None:
        self.unsent = memoryview(b"")
        """The part of the request for which the peer has no room yet."""
        self.ends_stream = False
        """The request is complete once `unsent` is sent."""
        self.window = 0
        """Bytes that the peer accepts on this stream."""
        self.credit = 0
        """Received bytes that were not yet announced as processed."""
        self.is_over = False
        self._buffer = bytearray()
        self._headers: Mapping[str, str] = {}

    def take_headers(self, headers: Mapping[str, str]) -> None:
        """Process the headers or the trailers of the response."""
        self._headers = {**self._headers, **headers} if self._headers else headers

    def take_data(self, data: bytes) -> None:
        """Process a part of the response."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= PREFIX_BYTES:
            size = int.from_bytes(buffer[1:PREFIX_BYTES], "big")
            if buffer[0]:
                self.end(GrpcProtocolError.of("not a gRPC message", bytes(buffer[:64])))
                return
            if size > MAX_MESSAGE:
                self.end(MessageTooLarge(f"a response of {size} bytes is too large"))
                return
            if len(buffer) < PREFIX_BYTES + size:
                return
            self.deliver(bytes(buffer[PREFIX_BYTES : PREFIX_BYTES + size]))
            del buffer[: PREFIX_BYTES + size]

    def finish(self) -> None:
        """Process the outcome: the service has closed the stream."""
        status = self._headers.get("grpc-status", "")
        if status == "0":
            self.end(None)
            return
        message = unquote(self._headers.get("grpc-message", "")) or "the service gave no reason"
        if status.isdigit():
            self.end(GrpcError(int(status), message))
        else:
            shown = self._headers.get(":status", "nothing")
            self.end(GrpcProtocolError(f"the response is not gRPC: HTTP status {shown}"))

    def end(self, failure: GrpcFailure | None) -> None:
        """End the call, once."""
        if not self.is_over:
            self.is_over = True
            self.conclude(failure)

    def deliver(self, message: bytes) -> None:
        """Process a message of the response."""
        raise NotImplementedError

    def conclude(self, failure: GrpcFailure | None) -> None:
        """Publish the outcome."""
        raise NotImplementedError


class UnaryCall(Call):
    """A call with one response."""

    __slots__ = ("_message", "response")

    def __init__(self) -> None:
        super().__init__()
        self.response: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._message = b""

    def deliver(self, message: bytes) -> None:
        self._message = message

    def conclude(self, failure: GrpcFailure | None) -> None:
        if self.response.done():
            return
        if failure is None:
            self.response.set_result(self._message)
        else:
            self.response.set_exception(failure)


class StreamCall(Call):
    """A call with any number of responses."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        super().__init__()
        self.messages: asyncio.Queue[bytes | GrpcFailure | None] = asyncio.Queue()
        """Messages, then None at the end or the failure."""

    def deliver(self, message: bytes) -> None:
        self.messages.put_nowait(message)

    def conclude(self, failure: GrpcFailure | None) -> None:
        self.messages.put_nowait(failure)
