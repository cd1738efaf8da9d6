# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks, declared next to their controller.

    async def check(request: AdmissionRequest[Notary]) -> None:
        if request.old and request.old.spec.config_map_name != request.object.spec.config_map_name:
            raise Denied("spec.configMapName cannot be changed")

    validating("notary-validator", Notary, check, operations=(UPDATE,))

A validator returns or raises. A defaulter returns the completed object; the JSON patch is
computed from the difference. Handlers are called in-process or over HTTPS, with the same
arguments. They MUST handle dry runs without side effects.

The exception determines the response: `Denied` is 403 Forbidden; an ApiError, also as the
cause of another exception, keeps its code, reason and message; any other exception is a bug
in the handler, is logged, and becomes 500.
"""

import base64
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

import orjson

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.client import ApiResource
from rdd.runtime.finalizers import deletion_refusal
from rdd.runtime.jsondiff import json_patch
from rdd.runtime.types import AnyResource, K, ObjectKey, resource_of

log = logging.getLogger("rdd.runtime")

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"


class Denied(Exception):
    """Rejects a write; the text is shown to the user."""


class PlainObject:
    """The view of objects whose kind has no class; it has only `raw`."""

    def __init__(self, raw: Object) -> None:
        self.raw = raw

    @classmethod
    def of(cls, raw: Object) -> "PlainObject":
        return cls(raw)


@dataclass(frozen=True, slots=True)
class AdmissionRequest(Generic[K]):
    """One write to be admitted."""

    operation: str
    key: ObjectKey
    object: K
    """The new object; for DELETE, the stored one."""
    old: K | None
    """The stored object; None for CREATE."""
    user: str
    groups: tuple[str, ...]
    is_dry_run: bool
    subresource: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """CreateOptions, UpdateOptions or DeleteOptions of the request."""
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Add a warning to the response."""
        self.warnings.append(text)


Validator = Callable[[AdmissionRequest[K]], Awaitable[None]]
Defaulter = Callable[[AdmissionRequest[K]], Awaitable[K]]


@dataclass(frozen=True, slots=True)
class Webhook:
    """One rule and its handler; rendered as a configuration object with one webhook."""

    name: str
    """Name of the configuration object."""
    type: Literal["validating", "mutating"]
    resource: ApiResource
    operations: tuple[str, ...]
    handler: Callable[[AdmissionRequest[Any]], Awaitable[Any]]
    view: Any
    """The typed kind, or PlainObject."""
    webhook_name: str
    """Qualified name of the webhook, shown when it rejects a write."""
    label_selector: Mapping[str, Any] | None = None
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout_s: int = 10

    @property
    def path(self) -> str:
        """Return the last segment of the URL."""
        return f"{self.type}-{self.name}"

    def configuration(self, url_prefix: str, ca_bundle: str) -> Object:
        """Return the configuration object for a URL prefix (`ca_bundle`: PEM)."""
        client: Object = {"url": f"{url_prefix}/{self.path}"}
        if ca_bundle:
            client["caBundle"] = base64.b64encode(ca_bundle.encode()).decode()
        resource = self.resource
        webhook: Object = {
            "name": self.webhook_name,
            "clientConfig": client,
            "rules": [
                {
                    "apiGroups": [resource.group],
                    "apiVersions": [resource.version],
                    "operations": list(self.operations),
                    "resources": [resource.plural],
                    "scope": "*",
                }
            ],
            "failurePolicy": "Fail",
            "sideEffects": self.side_effects,
            "timeoutSeconds": self.timeout_s,
            "admissionReviewVersions": ["v1", "v1beta1"],
        }
        if self.label_selector is not None:
            webhook["objectSelector"] = dict(self.label_selector)
        return {
            "apiVersion": f"{names.ADMISSION_GROUP}/v1",
            "kind": f"{self.type.capitalize()}WebhookConfiguration",
            "metadata": {"name": self.name},
            "webhooks": [webhook],
        }


def validating(
    name: str,
    kind: type[K] | ApiResource,
    handler: Validator[K],
    *,
    operations: tuple[str, ...] = (CREATE, UPDATE),
    webhook_name: str = "",
    label_selector: Mapping[str, Any] | None = None,
) -> Webhook:
    """Declare a rule that allows or rejects writes."""
    resource = resource_of(kind)
    return Webhook(
        name,
        "validating",
        resource,
        operations,
        handler,
        _view(kind),
        webhook_name or _qualified(name, resource),
        label_selector,
    )


def defaulting(
    name: str,
    kind: type[K] | ApiResource,
    handler: Defaulter[K],
    *,
    operations: tuple[str, ...] = (CREATE,),
    webhook_name: str = "",
    label_selector: Mapping[str, Any] | None = None,
) -> Webhook:
    """Declare a rule that sets defaults."""
    resource = resource_of(kind)
    return Webhook(
        name,
        "mutating",
        resource,
        operations,
        handler,
        _view(kind),
        webhook_name or _qualified(name, resource),
        label_selector,
    )


async def refuse_deletion_of_owned(request: AdmissionRequest[Any]) -> None:
    """Reject the deletion of an object with an owned-by finalizer; a handler for DELETE."""
    obj: Object = request.object.raw
    if obj["metadata"].get("deletionTimestamp"):
        return
    why = deletion_refusal(obj)
    if why:
        raise Denied(why)


class Reviewer:
    """Handles AdmissionReviews for a set of webhooks."""

    def __init__(self) -> None:
        self._webhooks: dict[str, Webhook] = {}

    def add(self, webhook: Webhook) -> None:
        """Handle reviews of a webhook. ValueError if the path is in use."""
        if webhook.path in self._webhooks:
            raise ValueError(f"there are two {webhook.type} webhooks named {webhook.name}")
        self._webhooks[webhook.path] = webhook

    def remove(self, webhook: Webhook) -> None:
        self._webhooks.pop(webhook.path, None)

    def has_path(self, path: str) -> bool:
        """Return whether a webhook is served at the last segment of a URL."""
        return path in self._webhooks

    async def review(self, path: str, review: Object) -> Object:
        """Return the AdmissionReview with a response. KeyError if no webhook has the path."""
        webhook = self._webhooks[path]
        payload = review["request"]
        request: AdmissionRequest[Any] = _request(webhook, payload)
        response: Object = {"uid": payload["uid"], "allowed": True}
        try:
            result = await webhook.handler(request)
            if webhook.type == "mutating":
                _add_patch(response, payload["object"], result.raw)
        except Exception as error:
            response = {"uid": payload["uid"], "allowed": False, "status": _status(webhook, error)}
        if request.warnings:
            response["warnings"] = request.warnings
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}


def _request(webhook: Webhook, payload: Object) -> AdmissionRequest[Any]:
    new, old = payload.get("object"), payload.get("oldObject")
    user = payload.get("userInfo") or {}
    current = new if new is not None else old
    assert current is not None
    name = payload.get("name") or current["metadata"].get("name") or ""
    return AdmissionRequest(
        payload["operation"],
        ObjectKey(payload.get("namespace") or "", name),
        webhook.view.of(current),
        webhook.view.of(old) if old is not None else None,
        user.get("username") or "",
        tuple(user.get("groups") or ()),
        bool(payload.get("dryRun")),
        payload.get("subResource") or "",
        payload.get("options") or {},
    )


def _add_patch(response: Object, old: Object, new: Object) -> None:
    # Through JSON: the result may share parts with the request, or contain views.
    operations = json_patch(old, orjson.loads(orjson.dumps(new)))
    if operations:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(operations)).decode()


def _status(webhook: Webhook, error: Exception) -> Object:
    for wrapped in _chain(error):
        if isinstance(wrapped, errors.ApiError):
            return wrapped.to_status()
    if isinstance(error, Denied):
        return {"code": 403, "reason": "Forbidden", "message": str(error)}
    log.error("admission webhook %s failed", webhook.webhook_name, exc_info=error)
    message = f"the handler failed: {type(error).__name__}: {error}"
    return {"code": 500, "reason": "InternalError", "message": message}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _view(kind: AnyResource) -> Any:
    return PlainObject if isinstance(kind, ApiResource) else kind


def _qualified(name: str, resource: ApiResource) -> str:
    if not resource.group:
        raise ValueError(f"{name}: a webhook of the core group needs a qualified webhook_name")
    return f"{name}.{resource.group}"
