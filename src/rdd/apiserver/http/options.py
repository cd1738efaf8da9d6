# SPDX-License-Identifier: Apache-2.0
"""Query parameters (and the DeleteOptions body) as typed options, validated as in Kubernetes.

Kubernetes converts query values leniently (`watch=maybe` is true) but validates
the result strictly and returns 422 about `CreateOptions`, `ListOptions` and so
on. One function per options kind reproduces both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rdd.api import (
    errors,
    fielderrors,
    fieldselectors,
    metadata,
    name_validation,
    names,
    selectors,
)
from rdd.api.fielderrors import FieldError
from rdd.apiserver.http import bodies
from rdd.apiserver.http.request import Request
from rdd.apiserver.kinds import decoding
from rdd.base import gotext

FIELD_VALIDATION = ("", "Ignore", "Strict", "Warn")
PROPAGATION = ("Foreground", "Background", "Orphan")
_INT64_MAX = 2**63 - 1
_INT64_DIGITS = 4000  # Python converts no longer ones; Kubernetes skips leading zeros
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"


@dataclass(slots=True)
class WriteOptions:
    """Options of create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = ""
    force: bool = False

    def to_object(self, kind: str) -> dict[str, Any]:
        """Return the options as admission webhooks receive them."""
        obj: dict[str, Any] = {"kind": kind, "apiVersion": f"{names.META_GROUP}/v1"}
        if self.dry_run:
            obj["dryRun"] = ["All"]
        if self.force:
            obj["force"] = True
        if self.field_manager:
            obj["fieldManager"] = self.field_manager
        if self.field_validation:
            obj["fieldValidation"] = self.field_validation
        return obj


@dataclass(slots=True)
class DeleteOptions:
    """Options of delete and deletecollection."""

    dry_run: bool = False
    grace_period_s: int | None = None
    orphan_dependents: bool | None = None
    propagation_policy: str | None = None
    uid: str | None = None
    resource_version: str | None = None

    def to_object(self) -> dict[str, Any]:
        """Return the options as admission webhooks receive them."""
        obj: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": f"{names.META_GROUP}/v1"}
        if self.grace_period_s is not None:
            obj["gracePeriodSeconds"] = self.grace_period_s
        preconditions = {}
        if self.uid is not None:
            preconditions["uid"] = self.uid
        if self.resource_version is not None:
            preconditions["resourceVersion"] = self.resource_version
        if preconditions:
            obj["preconditions"] = preconditions
        if self.orphan_dependents is not None:
            obj["orphanDependents"] = self.orphan_dependents
        if self.propagation_policy is not None:
            obj["propagationPolicy"] = self.propagation_policy
        if self.dry_run:
            obj["dryRun"] = ["All"]
        return obj


@dataclass(slots=True)
class ListOptions:
    """Options of list, watch and the selection part of deletecollection."""

    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    limit: int = 0
    continue_: str = ""
    timeout_s: int = 0
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None


def _invalid(kind: str, errs: Sequence[FieldError]) -> errors.Invalid:
    return errors.Invalid.of(kind, names.META_GROUP, "", errs)


_NO_OPTIONS = WriteOptions()


def write_options(request: Request, kind: str, *, is_apply: bool = False) -> WriteOptions:
    """Return the CreateOptions, UpdateOptions or PatchOptions of a request."""
    query = request.query
    if not query and not is_apply:
        return _NO_OPTIONS
    options = WriteOptions(
        field_manager=request.first("fieldManager"),
        field_validation=request.first("fieldValidation"),
    )
    errs: list[FieldError] = []
    if kind == "PatchOptions":
        if is_apply:
            options.force = lenient_bool(query.get("force")) or False
            if not options.field_manager:
                errs.append(fielderrors.required("fieldManager", "is required for apply patch"))
        elif "force" in query:
            errs.append(fielderrors.forbidden("force", "may not be specified for non-apply patch"))
    errs += metadata.validate_field_manager(options.field_manager, "fieldManager")
    options.dry_run = _dry_run(query.get("dryRun"), errs)
    if options.field_validation not in FIELD_VALIDATION:
        errs.append(
            fielderrors.not_supported("fieldValidation", options.field_validation, FIELD_VALIDATION)
        )
    if errs:
        raise _invalid(kind, errs)
    return options


def _dry_run(values: Sequence[str] | None, errs: list[FieldError]) -> bool:
    if not values:
        return False
    if any(v != "All" for v in values):
        errs.append(fielderrors.not_supported("dryRun", list(values), ["All"]))
    return True


def delete_options(request: Request) -> DeleteOptions:
    """Return the DeleteOptions of the body or, without a body, of the query."""
    options = DeleteOptions()
    dry_run: Sequence[str] | None
    if request.body:
        found = _delete_body(request)
        dry_run = found.get("dryRun")
        options.grace_period_s = found.get("gracePeriodSeconds")
        options.orphan_dependents = found.get("orphanDependents")
        options.propagation_policy = found.get("propagationPolicy")
        preconditions = found.get("preconditions") or {}
        options.uid = preconditions.get("uid")
        options.resource_version = preconditions.get("resourceVersion")
    else:
        query = request.query
        dry_run = query.get("dryRun")
        if "gracePeriodSeconds" in query:
            options.grace_period_s = _parse_int(request.first("gracePeriodSeconds"))
        options.orphan_dependents = lenient_bool(query.get("orphanDependents"))
        if "propagationPolicy" in query:
            options.propagation_policy = request.first("propagationPolicy")
        options.uid = request.first("uid") or None
        options.resource_version = request.first("resourceVersion") or None
    errs: list[FieldError] = []
    policy = options.propagation_policy
    if policy is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errs.append(fielderrors.invalid("propagationPolicy", policy, detail))
    if policy is not None and policy not in PROPAGATION:
        errs.append(fielderrors.not_supported("propagationPolicy", policy, [*PROPAGATION, "nil"]))
    options.dry_run = _dry_run(dry_run, errs)
    if errs:
        raise _invalid("DeleteOptions", errs)
    return options


def _delete_body(request: Request) -> dict[str, Any]:
    from rdd.schema.builtin import typed

    found, _ = bodies.parse(request)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise errors.BadRequest(bodies.not_an_object(found))
    kind, version = found.get("kind") or "", found.get("apiVersion") or ""
    if kind not in ("", "DeleteOptions"):
        version = str(version) or f"{names.META_GROUP}/v1"
        raise errors.BadRequest(decoding.not_registered(str(kind), version))
    return typed.decode_embedded(typed.shape(_DELETE_OPTIONS), found)


def list_options(request: Request, *, is_watch: bool) -> ListOptions:
    """Return the validated ListOptions of a list, watch or deletecollection."""
    if not request.query:
        return ListOptions()
    options = _decoded(request)
    errs = _watch_errors(options) if is_watch else _list_errors(options)
    if errs:
        # Selectors that cannot be parsed are reported before the validation of the options.
        selectors.parse_label_selector(options.label_selector)
        fieldselectors.parse_field_selector(options.field_selector)
        raise _invalid("ListOptions", errs)
    return options


def selected_name(request: Request) -> str:
    """Return the one name that a list or watch selects: it is authorised for that name.

    Empty if it selects none, or if options are malformed, which the handler refuses.
    """
    try:
        options = _decoded(request)
        selectors.parse_label_selector(options.label_selector)
        fields = fieldselectors.parse_field_selector(options.field_selector)
    except errors.BadRequest:
        return ""
    name = fields.exact_value("metadata.name") or ""
    return "" if name_validation.path_segment_name_errors(name) else name


def _decoded(request: Request) -> ListOptions:
    query = request.query
    options = ListOptions(
        label_selector=request.first("labelSelector"),
        field_selector=request.first("fieldSelector"),
        resource_version=request.first("resourceVersion"),
        resource_version_match=request.first("resourceVersionMatch"),
        continue_=request.first("continue"),
        allow_bookmarks=lenient_bool(query.get("allowWatchBookmarks")) or False,
        send_initial_events=lenient_bool(query.get("sendInitialEvents")),
    )
    if "timeoutSeconds" in query:
        options.timeout_s = _parse_int(request.first("timeoutSeconds"))
    if "limit" in query:
        options.limit = _parse_int(request.first("limit"))
    return options


def _list_errors(options: ListOptions) -> list[FieldError]:
    errs: list[FieldError] = []
    match, version = options.resource_version_match, options.resource_version
    if match:
        if not version:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            errs.append(fielderrors.forbidden("resourceVersionMatch", detail))
        if options.continue_:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            errs.append(fielderrors.forbidden("resourceVersionMatch", detail))
        if match not in ("Exact", "NotOlderThan"):
            errs.append(
                fielderrors.not_supported(
                    "resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]
                )
            )
        if match == "Exact" and version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            errs.append(fielderrors.forbidden("resourceVersionMatch", detail))
    if options.send_initial_events is not None:
        detail = "sendInitialEvents is forbidden for list"
        errs.append(fielderrors.forbidden("sendInitialEvents", detail))
    return errs


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errs: list[FieldError] = []
    match = options.resource_version_match
    if options.send_initial_events is not None:
        if match != "NotOlderThan":
            detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            errs.append(fielderrors.forbidden("resourceVersionMatch", detail))
    elif match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        errs.append(fielderrors.forbidden("resourceVersionMatch", detail))
    if match:
        if match != "NotOlderThan":
            errs.append(fielderrors.not_supported("resourceVersionMatch", match, ["NotOlderThan"]))
        if options.continue_:
            detail = "resourceVersionMatch is forbidden when continue is provided"
            errs.append(fielderrors.forbidden("resourceVersionMatch", detail))
    return errs


def check_timeout(request: Request) -> None:
    """Raise BadRequest if the `timeout` of a request is no duration; watches ignore it."""
    text = request.first("timeout")
    why = gotext.duration_error(text) if text else ""
    if why:
        raise errors.BadRequest(f"invalid timeout specified in the request URL - {why}")


def lenient_bool(values: Sequence[str] | None) -> bool | None:
    """Convert a query value as Kubernetes does: everything but "0" and "false" is true."""
    if not values:
        return None
    return values[0].lower() not in ("0", "false")


def _parse_int(text: str) -> int:
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise errors.BadRequest(f"strconv.ParseInt: parsing {gotext.quote(text)}: invalid syntax")
    value = int(text) if len(digits) <= _INT64_DIGITS else _INT64_MAX + 1
    if not -_INT64_MAX - 1 <= value <= _INT64_MAX:
        raise errors.BadRequest(
            f"strconv.ParseInt: parsing {gotext.quote(text)}: value out of range"
        )
    return value
