# SPDX-License-Identifier: Apache-2.0
"""Failures in kubectl's wording.

Three sources of failure have three forms: the client itself (`error: …`), the
server's Status (`Error from server (NotFound): …`, or `The Role "x" is invalid:
…` with the causes listed), and the connection (`Unable to connect to the server:
…`). The exit code is 1 unless the failure has another one.

`KubectlError` is a failure of the client itself. Failures of the server and of the
connection are the classes of `rdd.api.errors` and `rdd.client.errors`; only their
text is kubectl's.
"""

from collections.abc import Iterable

from rdd.api.errors import ApiError, from_status
from rdd.client.errors import ClientError, Unreachable


class KubectlError(Exception):
    """A failure of the client itself; stderr shows the text behind `error: `."""

    exit_code = 1

    @property
    def shown(self) -> str:
        """The text for stderr."""
        return f"error: {self}"


class VerbatimError(KubectlError):
    """A failure whose text is shown without a prefix."""

    @property
    def shown(self) -> str:
        return str(self)


class ExitWithCode(KubectlError):
    """Ends with an exit code; stderr shows nothing more."""

    def __init__(self, code: int) -> None:
        super().__init__("")
        self.exit_code = code

    @property
    def shown(self) -> str:
        return ""


class NoSuchResource(KubectlError):
    """The server has no resource of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f'the server doesn\'t have a resource type "{name}"')


Failure = KubectlError | ApiError | ClientError
FAILURES = (KubectlError, ApiError, ClientError)
"""The classes of a Failure, for `except`."""


class AggregateError(KubectlError):
    """Several failures of one command, each shown on lines of its own."""

    def __init__(self, failures: Iterable[Failure]) -> None:
        self.failures = list(failures)
        super().__init__("\n".join(str(failure) for failure in self.failures))

    @property
    def shown(self) -> str:
        return "\n".join(dict.fromkeys(_in_list(f) for f in self.failures if message_of(f)))


def raise_all(failures: list[Failure]) -> None:
    """Raise the collected failures, if any."""
    if failures:
        raise failures[0] if len(failures) == 1 else AggregateError(failures)


def message_of(failure: Failure) -> str:
    """Return the text for stderr."""
    if isinstance(failure, KubectlError):
        return failure.shown
    if isinstance(failure, ApiError):
        return _invalid(failure) if failure.reason == "Invalid" else _in_list(failure)
    if isinstance(failure, Unreachable):
        if failure.is_refused:
            return (
                f"The connection to the server {failure.address} was refused"
                " - did you specify the right host or port?"
            )
        return f"Unable to connect to the server: {failure}"
    return f"error: {failure}"


def _in_list(failure: Failure) -> str:
    """Return the text for stderr as one of several failures."""
    if not isinstance(failure, ApiError):
        return str(failure)
    if failure.reason == "Unauthorized":
        return f"error: You must be logged in to the server ({failure.message})"
    if failure.reason:
        return f"Error from server ({failure.reason}): {failure.message}"
    return f"Error from server: {failure.message}"


def _invalid(error: ApiError) -> str:
    details = error.details or {}
    kind, name = details.get("kind") or "", details.get("name") or ""
    causes = details.get("causes") or []
    text = "The request is invalid"
    if kind or name:
        text = f'The {kind} "{name}" is invalid'
    elif not causes:
        text += f": {error.message}" if error.message else ""
    lines = dict.fromkeys(f"{c.get('field', '')}: {c.get('message', '')}" for c in causes)
    if not lines:
        return text
    if len(lines) == 1:
        return f"{text}: {next(iter(lines))}"
    return "\n".join([f"{text}: ", *(f"* {line}" for line in lines)])


def within(error: ApiError, context: str) -> ApiError:
    """Return the error with what failed in front of its message, `error when creating "x"`."""
    return from_status({**error.to_status(), "message": f"{context}: {error.message}"})


def unsupported(feature: str) -> KubectlError:
    """Return the error for a feature of kubectl that the built-in client lacks."""
    return KubectlError(
        f"{feature} is not supported by the built-in client;"
        " install kubectl, or name one in RDD_KUBECTL, to use it"
    )
