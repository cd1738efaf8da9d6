# SPDX-License-Identifier: Apache-2.0
"""Events of the audit log: one JSON line per request and stage.

The server calls `begin` when the user is authenticated, and `end` with the response. A request
whose level is None costs one evaluation of the policy. A watch has the stage ResponseStarted when
its stream begins and ResponseComplete when it ends; other requests have only the latter.
"""

import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlencode

import orjson

from rdd.api import errors, yamlcodec
from rdd.api.decode import MAX_DEPTH
from rdd.api.timestamps import now_micro_text
from rdd.apiserver.audit.policy import API_VERSION, AuditPolicy, Decision, Level
from rdd.apiserver.http.request import AnyResponse, Request, Response, ResponseWriter, Stream, User

_BODIES = ("requestObject", "responseObject")
_LOOPBACK = "127.0.0.1"
"""The server listens on the loopback interface only, so this is the address of every client."""


class Sink(Protocol):
    """The destination of events."""

    def write(self, line: bytes) -> None:
        """Append a line."""
        ...

    def close(self) -> None:
        """Release the resources."""
        ...


class AuditRecord:
    """The audit of one request."""

    __slots__ = ("decision", "event")

    def __init__(self, decision: Decision, event: dict[str, Any]) -> None:
        self.decision = decision
        self.event = event


class Auditor:
    """Writes the events that a policy requires."""

    def __init__(
        self, policy: AuditPolicy, sink: Sink, clock: Callable[[], float] = time.time
    ) -> None:
        self._policy = policy
        self._sink = sink
        self._clock = clock

    def begin(self, request: Request, user: User) -> None:
        """Record that a request was received; `user` is the one before impersonation."""
        decision = self._policy.decide(user, request.info)
        if decision.level is Level.NONE:
            return
        event: dict[str, Any] = {
            "kind": "Event",
            "apiVersion": API_VERSION,
            "level": decision.level.text,
            "auditID": str(uuid.uuid4()),
            "stage": "",
            "requestURI": _uri(request),
            "verb": request.info.verb,
            "user": _user(user),
            "sourceIPs": _addresses(request),
        }
        agent = request.headers.get("User-Agent", "")
        if agent:
            event["userAgent"] = agent[:1024]
        reference = _reference(request)
        if reference:
            event["objectRef"] = reference
        event["requestReceivedTimestamp"] = now_micro_text(self._clock)
        request.audit = record = AuditRecord(decision, event)
        self._emit("RequestReceived", record)

    def impersonated(self, request: Request) -> None:
        """Record the impersonated user."""
        if request.audit is not None:
            request.audit.event["impersonatedUser"] = _user(request.user)

    def authorized(self, request: Request, *, allowed: bool, reason: str) -> None:
        """Record the decision of the authoriser."""
        if request.audit is not None:
            request.audit.event["annotations"] = {
                "authorization.k8s.io/decision": "allow" if allowed else "forbid",
                "authorization.k8s.io/reason": reason,
            }

    def end(self, request: Request, answer: AnyResponse) -> None:
        """Record the response, at once or when its stream ends."""
        record = request.audit
        if record is None:
            return
        event, level = record.event, record.decision.level
        if not request.info.is_resource:
            # As in Kubernetes; bodies of passthrough may contain anything.
            level = min(level, Level.METADATA)
        if request.audit_annotations:
            event["annotations"] = {**event.get("annotations", {}), **request.audit_annotations}
        if level >= Level.REQUEST:
            media = request.headers.get("Content-Type", "")
            self._add(record, "requestObject", request.body, media)
        event["responseStatus"] = _status(answer)
        if not isinstance(answer, Stream):
            if level >= Level.REQUEST_RESPONSE and isinstance(answer, Response):
                self._add(record, "responseObject", answer.body, answer.content_type)
            self._emit("ResponseComplete", record)
            return
        if request.info.verb == "watch":
            self._emit("ResponseStarted", record)
        produce = answer.produce

        async def audited(writer: ResponseWriter) -> None:
            try:
                await produce(writer)
            finally:
                self._emit("ResponseComplete", record)

        answer.produce = audited

    def close(self) -> None:
        """Close the log."""
        self._sink.close()

    def _emit(self, stage: str, record: AuditRecord) -> None:
        if stage in record.decision.omitted:
            return
        event = {
            **record.event,
            "stage": stage,
            "stageTimestamp": now_micro_text(self._clock),
        }
        try:
            line = orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE)
        except TypeError:
            # Bodies nested as deep as a body may be do not fit into an event.
            kept = {name: part for name, part in event.items() if name not in _BODIES}
            line = orjson.dumps(kept, option=orjson.OPT_APPEND_NEWLINE)
        self._sink.write(line)

    def _add(self, record: AuditRecord, name: str, body: bytes, media: str) -> None:
        """Add a body to the event; one that cannot be decoded is left out."""
        if not body:
            return
        try:
            value = _decoded(body, media)
        except (errors.ApiError, ValueError):
            return  # malformed: the status of the response has the reason
        if record.decision.omits_managed_fields:
            _drop_managed_fields(value)
        record.event[name] = value


def _decoded(body: bytes, media: str) -> Any:
    if "protobuf" in media:
        from rdd.schema.wire import protobuf

        return protobuf.decode(body)
    if "yaml" in media:
        return yamlcodec.read(body, max_depth=MAX_DEPTH).value
    return orjson.loads(body)


def _uri(request: Request) -> str:
    query = urlencode(request.query, doseq=True)
    return f"{request.path}?{query}" if query else request.path


def _user(user: User) -> dict[str, Any]:
    found: dict[str, Any] = {"username": user.name}
    if user.uid:
        found["uid"] = user.uid
    if user.groups:
        found["groups"] = list(user.groups)
    if user.extra:
        found["extra"] = {name: list(values) for name, values in user.extra.items()}
    return found


def _addresses(request: Request) -> list[str]:
    forwarded = request.headers.get("X-Forwarded-For", "")
    return [*(text for part in forwarded.split(",") if (text := part.strip())), _LOOPBACK]


def _reference(request: Request) -> dict[str, str]:
    info = request.info
    if not info.is_resource:
        return {}
    found = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    return {name: value for name, value in found.items() if value}


def _status(answer: AnyResponse) -> dict[str, Any]:
    status: dict[str, Any] = {"metadata": {}, "code": answer.status}
    if isinstance(answer, Response) and answer.status >= 400:
        try:
            found = orjson.loads(answer.body)
        except ValueError:
            return status
        if isinstance(found, dict) and found.get("kind") == "Status":
            names = ("status", "message", "reason", "details")
            shown = {name: found[name] for name in names if name in found}
            return {"metadata": {}, **shown, "code": answer.status}
    return status


def _drop_managed_fields(value: Any) -> None:
    for obj in (value, *(value.get("items") or ())) if isinstance(value, dict) else ():
        meta = obj.get("metadata") if isinstance(obj, dict) else None
        if isinstance(meta, dict):
            meta.pop("managedFields", None)
