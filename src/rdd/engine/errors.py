# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between us and the engine.

EngineFailure           any of these
  Unreachable           no answer: the engine is not there, or went away
  Unintelligible        an answer that makes no sense to us
  UnsupportedVersion    the engine is too old, or too new
  EngineError           the engine refused: its status and its own words
    NotFound, Conflict
"""

_SHOWN = 200


class EngineFailure(Exception):
    """Something between us and the engine went wrong; the text is for people."""


class Unreachable(EngineFailure, ConnectionError):
    """The engine did not answer."""


class UnsupportedVersion(EngineFailure):
    """There is no version of the API that both sides speak."""


class Unintelligible(EngineFailure):
    """The engine's answer is not what its API promises."""

    @classmethod
    def of(cls, what: str, answer: bytes) -> "Unintelligible":
        """Describe an answer by its beginning."""
        text = answer[:_SHOWN].decode("utf-8", "replace")
        return cls(f"{what}: {text!r}{'…' if len(answer) > _SHOWN else ''}")


class EngineError(EngineFailure):
    """The engine refused; `message` is what it said."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message

    @classmethod
    def of(cls, status: int, message: str) -> "EngineError":
        """The class that stands for a status."""
        return {404: NotFound, 409: Conflict}.get(status, EngineError)(status, message)


class NotFound(EngineError):
    """There is no such container, image or volume."""


class Conflict(EngineError):
    """What was asked for does not go together with the present state."""
