# SPDX-License-Identifier: Apache-2.0
"""Errors and warnings of a server's reply, and the failures that have no reply.

    rdd.api.errors.ApiError     the server replied with a failure, one class per reason
    ClientError                 there is no usable reply
    ├─ Unreachable              no reply at all
    ├─ MalformedReply           a reply that cannot be decoded
    └─ KubeconfigError          the kubeconfig lacks what a connection needs

The async client, the blocking one and the built-in kubectl share this tree; only
kubectl words it in its own way.
"""

import json

from rdd.api import errors

_NOT_FOUND = "the server could not find the requested resource"
_LONGEST_TEXT = 4096
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}


class ClientError(Exception):
    """A request failed without a usable reply; the text is one line."""


class Unreachable(ClientError, ConnectionError):
    """No reply: the server is down, or the connection broke before it replied."""

    def __init__(self, message: str, *, address: str = "", is_refused: bool = False) -> None:
        super().__init__(message)
        self.address = address
        self.is_refused = is_refused


class MalformedReply(ClientError):
    """A successful reply whose body cannot be decoded."""


def error_of_reply(code: int, body: bytes, *, retry_after: str = "") -> errors.ApiError:
    """Return the error of an unsuccessful reply; `retry_after` is the header of that name."""
    try:
        status = json.loads(body)
    except ValueError:
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        # Not a Kubernetes server, or a proxy in front of one.
        text = (
            _NOT_FOUND if code == 404 else body.decode("utf-8", "replace").strip()[:_LONGEST_TEXT]
        )
        status = {"message": text or f"HTTP {code}", "reason": _REASONS.get(code, "")}
    error = errors.from_status({"code": code, **status})
    if not error.retry_after_s and retry_after.isdecimal() and len(retry_after) < 10:
        error.retry_after_s = int(retry_after)
    return error


def warning_text(header: str) -> str:
    """Return the text of a Warning header, `299 - "text"`."""
    quoted = header.partition('"')[2].rpartition('"')[0]
    return quoted.replace('\\"', '"').replace("\\\\", "\\") or header
