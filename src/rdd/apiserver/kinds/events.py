# SPDX-License-Identifier: Apache-2.0
"""Strategies of events, which exist in two groups over one storage.

Events are stored in the form of the core group. events.k8s.io is a view with other member names
and stricter validation on creation. Events expire after one hour, and losing the last ones in a
crash is acceptable.
"""

from collections.abc import Mapping
from typing import Any

from rdd.api import fielderrors, metadata, name_validation, names
from rdd.api.fielderrors import FieldError
from rdd.api.types import Object
from rdd.apiserver.http import tables
from rdd.apiserver.kinds.builtin_strategy import BuiltinStrategy
from rdd.apiserver.kinds.strategy import TableColumn
from rdd.schema.builtin import goprint, texts
from rdd.schema.builtin.typed import decode_typed, shape

TTL_S = 3600.0

# events.k8s.io member → core member; all others have the same name
_CORE_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENTS_NAMES = {core: new for new, core in _CORE_NAMES.items()}
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def to_core(event: Object) -> Object:
    """Convert an event of events.k8s.io to a core event."""
    renamed = {_CORE_NAMES.get(k, k): v for k, v in event.items()}
    return decode_typed(shape("io.k8s.api.core.v1.Event"), renamed, unknown=[])


def from_core(event: Object) -> Object:
    """Convert a core event to one of events.k8s.io."""
    renamed = {_EVENTS_NAMES.get(k, k): v for k, v in event.items()}
    return decode_typed(shape("io.k8s.api.events.v1.Event"), renamed, unknown=[])


class EventStrategy(BuiltinStrategy):
    repeated_metadata_checks: tuple[str, ...] = ()
    validates_metadata = False
    allow_create_on_update = True
    has_dependents = False
    ttl_s = TTL_S
    durable = False
    columns = (
        TableColumn("Last Seen", description=texts.EVENT_LAST_TIMESTAMP),
        TableColumn("Type", description=texts.EVENT_TYPE),
        TableColumn("Reason", description=texts.EVENT_REASON),
        TableColumn("Object", description=texts.EVENT_OBJECT),
        TableColumn("Subobject", description=texts.FIELD_PATH, priority=1),
        TableColumn("Source", description=texts.EVENT_SOURCE, priority=1),
        TableColumn("Message", description=texts.EVENT_MESSAGE),
        TableColumn("First Seen", description=texts.EVENT_FIRST_TIMESTAMP, priority=1),
        TableColumn("Count", description=texts.EVENT_COUNT, priority=1),
        TableColumn("Name", format="name", description=texts.NAME, priority=1),
    )
    selectable_labels = frozenset(
        {*(f"involvedObject.{m}" for m in _REFERENCE), "reason", "reportingComponent", "source"}
        | {"type"}
    )

    def errors(self, obj: Object) -> list[FieldError]:
        return _legacy_errors(obj)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        involved = obj.get("involvedObject") or {}
        controller = obj.get("reportingComponent", "")
        fields = {f"involvedObject.{m}": involved.get(m, "") for m in _REFERENCE}
        fields["reason"] = obj.get("reason", "")
        fields["reportingComponent"] = controller
        fields["source"] = (obj.get("source") or {}).get("component") or controller
        fields["type"] = obj.get("type", "")
        return fields

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        event_time = obj.get("eventTime")
        first = tables.age(obj.get("firstTimestamp") or event_time, now=now)
        last = tables.age(obj.get("lastTimestamp"), now=now) if obj.get("lastTimestamp") else first
        count = obj.get("count") or 1
        series = obj.get("series")
        if series is not None:
            last = tables.age(series.get("lastObservedTime"), now=now)
            count = series.get("count", 0)
        involved = obj.get("involvedObject") or {}
        target = involved.get("kind", "").lower()
        if involved.get("name"):
            target += f"/{involved['name']}"
        source = obj.get("source") or {}
        reporter = source.get("component") or obj.get("reportingComponent", "")
        instance = source.get("host") or obj.get("reportingInstance", "")
        return [
            last,
            obj.get("type", ""),
            obj.get("reason", ""),
            target,
            involved.get("fieldPath", ""),
            f"{reporter}, {instance}" if instance else reporter,
            obj.get("message", "").strip(),
            first,
            count,
            (obj.get("metadata") or {}).get("name", ""),
        ]


class EventsV1Strategy(EventStrategy):
    """Events through events.k8s.io."""

    validates_metadata = True
    repeated_metadata_checks = ("whole",)
    storage = ("", "events")
    error_group = ""
    selectable_labels = frozenset(
        {*(f"regarding.{m}" for m in _REFERENCE), "reason", "reportingController", "type"}
    )

    def to_storage(self, obj: Object) -> Object:
        return to_core(obj)

    def from_storage(self, obj: Object) -> Object:
        return from_core(obj)

    def errors(self, obj: Object) -> list[FieldError]:
        event = to_core(obj)
        errors = _legacy_errors(event) + metadata.validate_kube_finalizers(event["metadata"])
        errors += _series_errors(event)
        if not event.get("eventTime"):
            errors.append(fielderrors.required("eventTime"))
        if event.get("type") not in ("Normal", "Warning"):
            detail = f"has invalid value: {event.get('type', '')}"
            errors.append(fielderrors.invalid("type", "", detail))
        for member in ("firstTimestamp", "lastTimestamp", "count", "source"):
            if event.get(member):
                errors.append(fielderrors.invalid(member, "", "needs to be unset"))
        return errors

    def update_errors(self, obj: Object, old: Object, *, subresource: str = "") -> list[FieldError]:
        """Return the errors of an update; only metadata and series may change."""
        event, stored = to_core(obj), to_core(old)
        errors = _legacy_errors(event) + metadata.validate_kube_finalizers(event["metadata"])
        if event.get("series") != stored.get("series"):
            errors += _series_errors(event)
        for member in _IMMUTABLE_MEMBERS:
            zero = _ZERO_VALUES.get(member, "")
            new = event.get(member, zero)
            if new == stored.get(member, zero):
                continue
            if member in _STRUCTS:
                new = None if new is None else goprint.internal(_STRUCTS[member], new)
            path = "reportingController" if member == "reportingComponent" else member
            errors.append(fielderrors.invalid(path, new, metadata.IMMUTABLE))
        return errors

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        """Return the fields of core events under the names of this group."""
        fields = super().selectable_fields(to_core(obj))
        return {
            **{f"regarding.{m}": fields[f"involvedObject.{m}"] for m in _REFERENCE},
            "reason": fields["reason"],
            "reportingController": fields["reportingComponent"],
            "type": fields["type"],
        }

    def cells(self, obj: Object, *, now: float) -> list[Any]:
        return super().cells(to_core(obj), now=now)


# In the order of Kubernetes, which checks the reason twice.
_IMMUTABLE_MEMBERS = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
    "reason", "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
_ZERO_VALUES: dict[str, Any] = {
    "involvedObject": {}, "source": {}, "count": 0, "related": None,
    "firstTimestamp": None, "lastTimestamp": None, "eventTime": None,
}  # fmt: skip
_STRUCTS = {
    "involvedObject": "io.k8s.api.core.v1.ObjectReference",
    "related": "io.k8s.api.core.v1.ObjectReference",
    "source": "io.k8s.api.core.v1.EventSource",
}


def _series_errors(event: Object) -> list[FieldError]:
    series = event.get("series")
    errors: list[FieldError] = []
    if series is not None:
        if (series.get("count") or 0) < 2:
            errors.append(fielderrors.invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            errors.append(fielderrors.required("series.lastObservedTime"))
    return errors


def _legacy_errors(event: Object) -> list[FieldError]:
    namespace = event["metadata"].get("namespace", "")
    involved = (event.get("involvedObject") or {}).get("namespace", "")
    errors: list[FieldError] = []
    if event.get("eventTime"):
        matches = bool(involved) or namespace in (
            names.DEFAULT_NAMESPACE,
            names.KUBE_SYSTEM_NAMESPACE,
        )
    elif involved:
        matches = involved == namespace
    else:
        matches = namespace in ("", names.DEFAULT_NAMESPACE)
    if not matches:
        detail = "does not match event.namespace"
        errors.append(fielderrors.invalid("involvedObject.namespace", involved, detail))
    if event.get("eventTime"):
        errors += _completeness_errors(event)
    for why in name_validation.dns1123_subdomain_errors(namespace):
        errors.append(fielderrors.invalid("namespace", namespace, why))
    return errors


def _completeness_errors(event: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = event.get("reportingComponent", "")
    if not controller:
        errors.append(fielderrors.required("reportingController"))
    for why in name_validation.qualified_name_errors(controller):
        errors.append(fielderrors.invalid("reportingController", controller, why))
    for member, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        text = event.get(member, "")
        if not text:
            errors.append(fielderrors.required(member))
        errors += _length_errors(member, text, limit)
    return errors + _length_errors("message", event.get("message", ""), 1024)


def _length_errors(member: str, text: str, limit: int) -> list[FieldError]:
    if len(text.encode()) <= limit:
        return []
    return [fielderrors.invalid(member, "", f"can have at most {limit} characters")]
