# SPDX-License-Identifier: Apache-2.0
"""Failures of the connection to an engine.

EngineFailure                any of these
  EngineUnreachable          no response: the engine is not running, or the connection was lost
  EngineProtocolError        a response that the API does not allow
  UnsupportedEngineVersion   the engine is too old
  EngineError                the engine rejected the request: its status and message
    EngineNotFound, EngineConflict
"""

_SHOWN = 200


class EngineFailure(Exception):
    """A request to the engine failed; the text is for people."""


class EngineUnreachable(EngineFailure, ConnectionError):
    """The engine did not respond."""


class UnsupportedEngineVersion(EngineFailure):
    """Client and engine have no version of the API in common."""


class EngineProtocolError(EngineFailure):
    """The response of the engine is malformed."""

    @classmethod
    def of(cls, problem: str, response: bytes) -> "EngineProtocolError":
        """Describe a response by its beginning."""
        text = response[:_SHOWN].decode("utf-8", "replace")
        return cls(f"{problem}: {text!r}{'…' if len(response) > _SHOWN else ''}")


class EngineError(EngineFailure):
    """The engine rejected a request; `message` is the engine's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    @classmethod
    def of(cls, status: int, message: str) -> "EngineError":
        """Create the class for a status."""
        message = message or "the engine gave no reason"
        return {404: EngineNotFound, 409: EngineConflict}.get(status, EngineError)(status, message)


class EngineNotFound(EngineError):
    """The container, image or volume does not exist."""


class EngineConflict(EngineError):
    """The present state does not allow the request."""
