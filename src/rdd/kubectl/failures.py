# SPDX-License-Identifier: Apache-2.0
"""How the built-in client fails, in kubectl's words.

Three sources of failure have three forms: the client itself (`error: …`), the
server's Status (`Error from server (NotFound): …`, or `The Role "x" is invalid:
…` with the causes listed), and the way to the server (`Unable to connect to the
server: …`). All of them end with exit code 1 unless they say otherwise.
"""

from collections.abc import Iterable
from typing import Any


class CtlError(Exception):
    """A failure of the client itself; the text is printed behind `error: `."""

    exit_code = 1

    @property
    def shown(self) -> str:
        """What stderr shows."""
        return f"error: {self.in_list}"

    @property
    def in_list(self) -> str:
        """What stderr shows when it is one of several failures."""
        return str(self)


class Refused(CtlError):
    """A failure whose text is printed as it is."""

    @property
    def shown(self) -> str:
        """What stderr shows."""
        return str(self)


class DeadlineExceeded(CtlError):
    """A wait that ended at its deadline."""


class ExitCode(CtlError):
    """Ends with a code of its own; everything that had to be said was said."""

    def __init__(self, code: int) -> None:
        super().__init__("")
        self.exit_code = code

    @property
    def shown(self) -> str:
        """Nothing."""
        return ""


class NoSuchResource(CtlError):
    """The server has no resource of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'the server doesn\'t have a resource type "{name}"')


class Failures(CtlError):
    """Several failures of one command, each shown on lines of its own."""

    def __init__(self, errors: Iterable[CtlError]) -> None:
        self.errors = list(errors)
        super().__init__("\n".join(str(e) for e in self.errors))

    @property
    def shown(self) -> str:
        """What stderr shows."""
        return "\n".join(dict.fromkeys(e.in_list for e in self.errors if e.shown))


class ServerError(CtlError):
    """The server's answer was a failure, described by its Status."""

    def __init__(self, status: dict[str, Any], *, context: str = "") -> None:
        self.status = status
        self.context = context  # what was being done, e.g. `error when creating "x.yaml"`
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The server's words, behind what was being done."""
        text = str(self.status.get("message") or "")
        return f"{self.context}: {text}" if self.context else text

    @property
    def reason(self) -> str:
        """NotFound, Conflict, …; empty when the server gave none."""
        return str(self.status.get("reason") or "")

    @property
    def code(self) -> int:
        """The HTTP status."""
        return int(self.status.get("code") or 0)

    def within(self, context: str) -> "ServerError":
        """The same failure, told with what was being done."""
        return ServerError(self.status, context=context)

    @property
    def shown(self) -> str:
        """What stderr shows."""
        return self._invalid() if self.reason == "Invalid" else self.in_list

    @property
    def in_list(self) -> str:
        """What stderr shows when it is one of several failures."""
        if self.reason == "Unauthorized":
            return f"error: You must be logged in to the server ({self.message})"
        if self.reason:
            return f"Error from server ({self.reason}): {self.message}"
        return f"Error from server: {self.message}"

    def _invalid(self) -> str:
        details: dict[str, Any] = self.status.get("details") or {}
        kind, name = details.get("kind") or "", details.get("name") or ""
        causes = details.get("causes") or []
        text = "The request is invalid"
        if kind or name:
            text = f'The {kind} "{name}" is invalid'
        elif not causes:
            text += f": {self.message}" if self.message else ""
        lines = dict.fromkeys(f"{c.get('field', '')}: {c.get('message', '')}" for c in causes)
        if not lines:
            return text
        if len(lines) == 1:
            return f"{text}: {next(iter(lines))}"
        return "\n".join([f"{text}: ", *(f"* {line}" for line in lines)])


class Unreachable(CtlError):
    """No answer came."""

    def __init__(self, address: str, problem: Exception | str) -> None:
        self.address = address
        self.is_refused = isinstance(problem, ConnectionRefusedError)
        text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        super().__init__(text)

    @property
    def shown(self) -> str:
        """What stderr shows."""
        if self.is_refused:
            return (
                f"The connection to the server {self.address} was refused"
                " - did you specify the right host or port?"
            )
        return f"Unable to connect to the server: {self}"


def unsupported(what: str) -> CtlError:
    """The error for something kubectl can do and the built-in client cannot."""
    return CtlError(
        f"{what} is not supported by the built-in client;"
        " install kubectl, or name one in RDD_KUBECTL, to use it"
    )
