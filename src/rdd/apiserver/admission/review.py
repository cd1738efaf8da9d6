# SPDX-License-Identifier: Apache-2.0
"""AdmissionReview: the request to a webhook and the validation of its response.

`build_review` describes a write in the form of `admission.k8s.io/v1`; the `request` variable of CEL
expressions is the same without the objects (`request_attributes`). `parse_response` validates the
response as strictly as Kubernetes: version, uid, types, and that only mutating webhooks send
patches. Webhooks are untrusted, so the type of every value is checked before its use.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rdd.api import errors
from rdd.api.types import Object
from rdd.apiserver.admission.chain import CREATE, DELETE, UPDATE, AdmissionAttributes
from rdd.apiserver.admission.matching import is_namespace
from rdd.apiserver.admission.versions import GroupVersionKind, kind_of
from rdd.apiserver.resources import Resource
from rdd.base import goformat
from rdd.base.gotext import quote

VERSIONS = ("v1", "v1beta1")
JSON_PATCH = "JSONPatch"
_GROUP = "admission.k8s.io"
_KIND = "AdmissionReview"


class InvalidResponse(Exception):
    """An unusable response; `is_decoded` is False if it was not even an AdmissionReview."""

    def __init__(self, message: str, *, is_decoded: bool) -> None:
        super().__init__(message)
        self.is_decoded = is_decoded


def _kind(kind: GroupVersionKind) -> Object:
    return {"group": kind[0], "version": kind[1], "kind": kind[2]}


def _resource(resource: Resource) -> Object:
    return {"group": resource.group, "version": resource.version, "resource": resource.plural}


def name_of(attributes: AdmissionAttributes) -> str:
    """Return the name in the request; deleting a collection has none."""
    if attributes.operation == DELETE and not attributes.request.info.name:
        return ""
    return attributes.name


def namespace_of(attributes: AdmissionAttributes) -> str:
    """Return the namespace of a write; a namespace counts as inside itself."""
    return attributes.name if is_namespace(attributes.resource) else attributes.namespace


def request_attributes(attributes: AdmissionAttributes, target: Resource) -> Object:
    """Return the attributes of a write in the version `target`, without its objects."""
    subresource = attributes.subresource
    request: Object = {
        "kind": _kind(kind_of(target, subresource)),
        "resource": _resource(target),
    }
    if subresource:
        request["subResource"] = subresource
    request["requestKind"] = _kind(kind_of(attributes.resource, subresource))
    request["requestResource"] = _resource(attributes.resource)
    if subresource:
        request["requestSubResource"] = subresource
    for member, value in (("name", name_of(attributes)), ("namespace", namespace_of(attributes))):
        if value:
            request[member] = value
    request["operation"] = attributes.operation
    request["userInfo"] = attributes.user.to_user_info()
    request["dryRun"] = attributes.dry_run
    request["options"] = _options(attributes)
    return request


def _options(attributes: AdmissionAttributes) -> Object:
    """Return the options of the operation; those of a patch become UpdateOptions."""
    if attributes.operation not in _OPTIONS:
        return attributes.options
    kept = {name: value for name, value in attributes.options.items() if name != "force"}
    return {**kept, "kind": _OPTIONS[attributes.operation]}


_OPTIONS = {CREATE: "CreateOptions", UPDATE: "UpdateOptions"}


def build_review(
    attributes: AdmissionAttributes,
    target: Resource,
    objects: tuple[Object | None, Object | None],
    *,
    version: str,
    uid: str,
) -> Object:
    """Return the AdmissionReview for a write."""
    request = request_attributes(attributes, target)
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/{version}",
        "request": {"uid": uid, **request, "object": objects[0], "oldObject": objects[1]},
    }


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """The parsed response of a webhook."""

    is_allowed: bool
    status: Object = field(default_factory=dict)
    patch: bytes = b""
    patch_type: str = ""
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)


def parse_response(review: Any, *, version: str, uid: str, is_mutating: bool) -> WebhookResponse:
    """Parse the response in an AdmissionReview; raise InvalidResponse."""
    if not isinstance(review, dict):
        raise _undecodable(f"{goformat.json_kind(review)} into Go value of type {_KIND}")
    api_version = _typed(review, "apiVersion", str, "")
    kind = _typed(review, "kind", str, "")
    if (api_version or f"{_GROUP}/{version}", kind or _KIND) != (f"{_GROUP}/{version}", _KIND):
        raise InvalidResponse(
            f"no kind {quote(kind)} is registered for version {quote(api_version)}",
            is_decoded=False,
        )
    response = _typed(review, "response", dict, None)
    parsed = _parse_response(response) if response is not None else None
    if parsed is None or response is None:
        raise InvalidResponse("webhook response was absent", is_decoded=True)
    if version == "v1":
        _check_v1(response, parsed, api_version, kind, uid=uid, is_mutating=is_mutating)
        return parsed
    # v1beta1 ignores the patch type, and patches of validating webhooks.
    if is_mutating:
        return replace(parsed, patch_type=JSON_PATCH)
    return replace(parsed, patch=b"")


def _check_v1(
    response: Object,
    parsed: WebhookResponse,
    api_version: str,
    kind: str,
    *,
    uid: str,
    is_mutating: bool,
) -> None:
    got = response.get("uid") or ""
    problem = ""
    if got != uid:
        problem = f"expected response.uid={quote(uid)}, got {quote(got)}"
    elif not api_version or not kind:
        group, _, version = api_version.rpartition("/")
        problem = (
            f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, "
            f"got {group}/{version}, Kind={kind}"
        )
    elif is_mutating:
        has_type = response.get("patchType") is not None
        if parsed.patch and not has_type:
            problem = "webhook returned response.patch but not response.patchType"
        elif has_type and not parsed.patch:
            problem = "webhook returned response.patchType but not response.patch"
        elif has_type and not parsed.patch_type:
            problem = 'webhook returned invalid response.patchType of ""'
    elif parsed.patch:
        problem = "validating webhook may not return response.patch"
    elif response.get("patchType") is not None:
        problem = "validating webhook may not return response.patchType"
    if problem:
        raise InvalidResponse(problem, is_decoded=True)


def _parse_response(response: Object) -> WebhookResponse:
    _typed(response, "uid", str, "")
    patch = _typed(response, "patch", str, "")
    try:
        decoded = base64.b64decode(patch.translate(_LINE_BREAKS), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidResponse(f"illegal base64 data: {error}", is_decoded=False) from None
    warnings = _typed(response, "warnings", list, ())
    if not all(isinstance(text, str) for text in warnings):
        raise _undecodable("value into Go struct field AdmissionResponse.warnings of type string")
    annotations = _typed(response, "auditAnnotations", dict, {})
    if not all(isinstance(text, str) for text in annotations.values()):
        raise _undecodable(
            "value into Go struct field AdmissionResponse.auditAnnotations of type string"
        )
    return WebhookResponse(
        _typed(response, "allowed", bool, False),
        _parse_status(_typed(response, "status", dict, {})),
        decoded,
        _typed(response, "patchType", str, ""),
        tuple(warnings),
        annotations,
    )


_LINE_BREAKS = {ord("\r"): None, ord("\n"): None}  # Go's decoder skips them
_DETAILS: Mapping[str, type] = {"name": str, "group": str, "kind": str, "uid": str}
_CAUSE: Mapping[str, type] = {"reason": str, "message": str, "field": str}


def _parse_status(status: Object) -> Object:
    """Return the members of a metav1.Status that are sent to the client."""
    found: Object = {
        "message": _typed(status, "message", str, ""),
        "reason": _typed(status, "reason", str, ""),
        "code": _typed(status, "code", int, 0),
    }
    details = _typed(status, "details", dict, None)
    if details is not None:
        kept = {m: v for m, t in _DETAILS.items() if (v := _typed(details, m, t, ""))}
        causes = [_parse_cause(cause) for cause in _typed(details, "causes", list, ())]
        if causes:
            kept["causes"] = causes
        retry = _typed(details, "retryAfterSeconds", int, 0)
        if retry:
            kept["retryAfterSeconds"] = retry
        found["details"] = kept
    return found


def _parse_cause(cause: Any) -> Object:
    if not isinstance(cause, dict):
        raise _undecodable("value into Go struct field StatusDetails.causes")
    return {m: v for m, t in _CAUSE.items() if (v := _typed(cause, m, t, ""))}


def _typed(obj: Object, member: str, wanted: type, absent: Any) -> Any:
    value = obj.get(member)
    if value is None:
        return absent
    if type(value) is not wanted:
        kind = goformat.json_kind(value)
        raise _undecodable(f"{kind} into Go struct field .{member} of type {wanted.__name__}")
    return value


def _undecodable(what: str) -> InvalidResponse:
    return InvalidResponse(f"json: cannot unmarshal {what}", is_decoded=False)


def denial(webhook: str, status: Object) -> errors.ApiError:
    """Return the error of a write that a webhook does not allow."""
    message = f"admission webhook {quote(webhook)} denied the request"
    reason = status.get("reason") or ""
    if why := status.get("message") or reason:
        message = f"{message}: {why}"
    else:
        message = f"{message} without explanation"
    code = status.get("code") or 0
    details = status.get("details")
    return errors.ApiError(
        message,
        details=details,
        # A denial is never a success, and a status code has at most three digits.
        code=code if 400 <= code <= 999 else 400,
        reason=reason,
        retry_after_s=max(0, (details or {}).get("retryAfterSeconds", 0)),
    )
