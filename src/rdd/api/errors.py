# SPDX-License-Identifier: Apache-2.0
"""The errors of the API, one class per Kubernetes reason.

    ApiError
    ├─ BadRequest 400          ├─ Gone, Expired 410
    ├─ Unauthorized 401        ├─ RequestEntityTooLarge 413
    ├─ Forbidden 403           ├─ UnsupportedMediaType 415
    ├─ NotFound 404            ├─ Invalid 422
    ├─ MethodNotAllowed 405    ├─ TooManyRequests 429
    ├─ NotAcceptable 406       ├─ InternalError 500
    ├─ AlreadyExists 409       ├─ ServiceUnavailable 503
    └─ Conflict 409            └─ Timeout 504

The server renders an error as a `metav1.Status`; the client parses a Status
back into the same class (`from_status`). The wording of the constructors is
Kubernetes' own, because kubectl and scripts match it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from rdd.base import gotext

if TYPE_CHECKING:
    from rdd.api.fielderrors import FieldError


class ApiError(Exception):
    """A response with a failure Status.

    `details` is the Status' details member; None leaves it out.
    `retry_after_s` also becomes the Retry-After header.
    """

    code: int = 500
    reason: str = ""

    def __init__(
        self,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        code: int | None = None,
        reason: str | None = None,
        retry_after_s: int = 0,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = details
        if code is not None:
            self.code = code
        if reason is not None:
            self.reason = reason
        self.retry_after_s = retry_after_s
        self.metadata: dict[str, Any] = {}
        """The Status' ListMeta (an expired list offers a continue token there)."""

    def has_cause(self, reason: str) -> bool:
        """Return whether the Status lists a cause with this reason."""
        causes = (self.details or {}).get("causes") or ()
        return any(cause.get("reason") == reason for cause in causes)

    def to_status(self) -> dict[str, Any]:
        """Return the error as a metav1.Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        details = self.details
        if self.retry_after_s:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after_s}
        if details is not None:
            status["details"] = details
        status["code"] = self.code
        return status


def qualified(resource: str, group: str) -> str:
    """Return `roles.rbac.authorization.k8s.io`, or just the resource in the core group."""
    return f"{resource}.{group}" if group else resource


def object_details(kind: str, group: str, name: str) -> dict[str, Any]:
    """Return status details that name an object (`kind` holds the resource in most errors)."""
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


class BadRequest(ApiError):
    """The request is malformed."""

    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """The client is not authenticated."""

    code, reason = 401, "Unauthorized"

    def __init__(self, message: str = "Unauthorized", **kwargs: Any) -> None:
        super().__init__(message, **kwargs)


class Forbidden(ApiError):
    """The client is not authorised."""

    code, reason = 403, "Forbidden"

    @classmethod
    def to_object(cls, resource: str, group: str, name: str, why: str) -> Self:
        """Return `configmaps "a" is forbidden: why`, without the name if there is none."""
        what = qualified(resource, group)
        subject = f"{what} {gotext.quote(name)}" if name else what
        return cls(f"{subject} is forbidden: {why}", details=object_details(resource, group, name))


class NotFound(ApiError):
    """The object or the path does not exist."""

    code, reason = 404, "NotFound"

    @classmethod
    def of(cls, resource: str, group: str, name: str) -> Self:
        """Return `configmaps "a" not found`."""
        return cls(
            f"{qualified(resource, group)} {gotext.quote(name)} not found",
            details=object_details(resource, group, name),
        )

    @classmethod
    def resource(cls) -> Self:
        """Return the answer to a path that names no resource of a known group."""
        return cls("the server could not find the requested resource", details={})


class MethodNotAllowed(ApiError):
    """The resource does not support this verb."""

    code, reason = 405, "MethodNotAllowed"

    def __init__(
        self,
        message: str = "the server does not allow this method on the requested resource",
        *,
        details: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(message, details={} if details is None else details, **kwargs)


class NotAcceptable(ApiError):
    """No accepted representation is available."""

    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    """An object of that name exists."""

    code, reason = 409, "AlreadyExists"

    @classmethod
    def of(cls, resource: str, group: str, name: str) -> Self:
        """Return `configmaps "a" already exists`."""
        return cls(
            f"{qualified(resource, group)} {gotext.quote(name)} already exists",
            details=object_details(resource, group, name),
        )


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class Conflict(ApiError):
    """The object is not in the state the request assumed."""

    code, reason = 409, "Conflict"

    @classmethod
    def of(cls, resource: str, group: str, name: str, why: str = MODIFIED) -> Self:
        """Return `Operation cannot be fulfilled on configmaps "a": why`."""
        what = f"{qualified(resource, group)} {gotext.quote(name)}"
        return cls(
            f"Operation cannot be fulfilled on {what}: {why}",
            details=object_details(resource, group, name),
        )


class Gone(ApiError):
    """The requested resource existed and no longer does."""

    code, reason = 410, "Gone"


class Expired(ApiError):
    """The resource version or continue token is no longer retained."""

    code, reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    """The body is larger than the server accepts."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """The body is in a format the server does not read here."""

    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """The object fails validation; `errors` lists the causes."""

    code, reason = 422, "Invalid"

    def __init__(self, message: str, *, errors: Sequence["FieldError"] = (), **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.errors = tuple(errors)

    @classmethod
    def of(cls, kind: str, group: str, name: str, errors: Sequence["FieldError"]) -> Self:
        """Return `ConfigMap "a" is invalid: …` with one cause per field error."""
        # Clients import this module at start-up; they make no field errors.
        from rdd.api import fielderrors

        errors = fielderrors.bounded(errors)
        text = fielderrors.aggregate([str(e) for e in errors])
        details = object_details(kind, group, name)
        details["causes"] = [
            {"reason": e.reason, "message": e.body, "field": e.field} for e in errors
        ]
        message = f"{qualified(kind, group)} {gotext.quote(name)} is invalid: {text}"
        return cls(message, errors=errors, details=details)


class TooManyRequests(ApiError):
    """The server is overloaded; the client should retry later."""

    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    """The server failed."""

    code, reason = 500, "InternalError"

    @classmethod
    def because(cls, why: str) -> Self:
        """Return `Internal error occurred: why`, with the cause in the details."""
        return cls(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


class ServiceUnavailable(ApiError):
    """The server is temporarily unable to handle the request."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    """The request took too long."""

    code, reason = 504, "Timeout"


_CLASSES: tuple[type[ApiError], ...] = (
    BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed, NotAcceptable, AlreadyExists,
    Conflict, Gone, Expired, RequestEntityTooLarge, UnsupportedMediaType, Invalid,
    TooManyRequests, InternalError, ServiceUnavailable, Timeout,
)  # fmt: skip
_BY_REASON = {c.reason: c for c in _CLASSES}
# Several reasons share 409 and 410: without a reason, the more general one is meant.
_BY_CODE = {c.code: c for c in reversed(_CLASSES)} | {409: Conflict, 410: Gone}


def from_status(status: dict[str, Any]) -> ApiError:
    """Return the error a Status stands for.

    By its reason, else by its code, else a plain ApiError.
    """
    reason, code = str(status.get("reason") or ""), int(status.get("code") or 500)
    cls = _BY_REASON.get(reason) or _BY_CODE.get(code, ApiError)
    details = status.get("details")
    return cls(
        str(status.get("message") or ""),
        details=details,
        code=code,
        reason=reason,
        retry_after_s=int((details or {}).get("retryAfterSeconds") or 0),
    )
