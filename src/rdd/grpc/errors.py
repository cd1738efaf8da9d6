# SPDX-License-Identifier: Apache-2.0
"""Failures of gRPC calls.

GrpcFailure            any of these
  NotConnected         no connection: the request was not sent
  ConnectionLost       the connection ended during the call: the outcome is unknown
  GrpcTimeout          no response within the timeout: the outcome is unknown
  GrpcProtocolError    a response that gRPC does not allow
    MessageTooLarge    a response above the limit of this client
  GrpcError            the service rejected the call: its status code and message
"""

import enum

_SHOWN = 200


class StatusCode(enum.IntEnum):
    """The status codes of gRPC that callers distinguish."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcFailure(Exception):
    """A call failed; the text is for people."""


class NotConnected(GrpcFailure):
    """The connection could not be opened; nothing was sent."""


class ConnectionLost(GrpcFailure):
    """The connection ended while the call was in progress."""


class GrpcTimeout(GrpcFailure):
    """The service did not respond in time."""


class GrpcProtocolError(GrpcFailure):
    """The response is malformed."""

    @classmethod
    def of(cls, problem: str, response: bytes) -> "GrpcProtocolError":
        """Describe a response by its beginning."""
        text = response[:_SHOWN].decode("utf-8", "replace")
        return cls(f"{problem}: {text!r}{'…' if len(response) > _SHOWN else ''}")


class MessageTooLarge(GrpcProtocolError):
    """The response has a message above the limit of this client."""


class GrpcError(GrpcFailure):
    """The service rejected the call; `message` is the service's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
