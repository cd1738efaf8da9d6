# SPDX-License-Identifier: Apache-2.0
"""Admission rules, declared next to the controller they belong to.

    async def check(request: AdmissionRequest[Notary]) -> None:
        if request.old and request.old.spec.config_map_name != request.object.spec.config_map_name:
            raise Denied("spec.configMapName cannot be changed")

    validating("notary-validator", Notary, check, operations=(UPDATE,))

A validator returns or raises. A defaulter returns the object it wants; the
JSON patch is the difference. Handlers are called in-process or over HTTPS and
cannot tell which. They MUST answer dry runs without side effects.

What is raised decides the answer: `Denied` is 403 Forbidden; an ApiError, also
one that another error was raised `from`, keeps its own code, reason and
message; anything else is an error in the handler: it is logged, and 500.
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
    """A write that is not allowed; the text is the reason, for people."""


class PlainObject:
    """The view of objects whose kind has no class: `raw` is all there is."""

    def __init__(self, raw: Object) -> None:
        self.raw = raw

    @classmethod
    def of(cls, raw: Object) -> "PlainObject":
        """The view over a dict."""
        return cls(raw)


@dataclass(frozen=True, slots=True)
class AdmissionRequest(Generic[K]):
    """One write that waits for an answer."""

    operation: str
    key: ObjectKey
    object: K
    """The new object; of a DELETE: the stored one."""
    old: K | None
    """The stored object; None for CREATE."""
    user: str
    groups: tuple[str, ...]
    is_dry_run: bool
    subresource: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    """CreateOptions, UpdateOptions or DeleteOptions, as the client gave them."""
    warnings: list[str] = field(default_factory=list)

    def warn(self, text: str) -> None:
        """Have the client shown a warning."""
        self.warnings.append(text)


Validator = Callable[[AdmissionRequest[K]], Awaitable[None]]
Defaulter = Callable[[AdmissionRequest[K]], Awaitable[K]]


@dataclass(frozen=True, slots=True)
class Webhook:
    """One rule and its handler; becomes a configuration object with one webhook."""

    name: str
    """Of the configuration object."""
    type: Literal["validating", "mutating"]
    resource: ApiResource
    operations: tuple[str, ...]
    handler: Callable[[AdmissionRequest[Any]], Awaitable[Any]]
    view: Any
    """The typed kind, or PlainObject."""
    webhook_name: str
    """What refusals name: qualified, unlike `name`."""
    label_selector: Mapping[str, Any] | None = None
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout_s: int = 10

    @property
    def path(self) -> str:
        """The last segment of its URL."""
        return f"{self.type}-{self.name}"

    def configuration(self, url_prefix: str, ca_bundle: str) -> Object:
        """The configuration object that has the server ask at a URL (`ca_bundle`: PEM)."""
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
    """A rule that allows writes or refuses them."""
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
    """A rule that completes objects."""
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
    """The handler every kind needs whose objects can carry an owned-by finalizer (on DELETE)."""
    obj: Object = request.object.raw
    if obj["metadata"].get("deletionTimestamp"):
        return
    why = deletion_refusal(obj)
    if why:
        raise Denied(why)


class Reviewer:
    """Answers AdmissionReviews for a set of webhooks."""

    def __init__(self) -> None:
        self._webhooks: dict[str, Webhook] = {}

    def add(self, webhook: Webhook) -> None:
        """Answer for a webhook from now on. ValueError if its path is taken."""
        if webhook.path in self._webhooks:
            raise ValueError(f"there are two {webhook.type} webhooks named {webhook.name}")
        self._webhooks[webhook.path] = webhook

    def remove(self, webhook: Webhook) -> None:
        """Answer for it no more."""
        self._webhooks.pop(webhook.path, None)

    def knows(self, path: str) -> bool:
        """Whether the last segment of a URL is that of a webhook."""
        return path in self._webhooks

    async def review(self, path: str, review: Object) -> Object:
        """The AdmissionReview with the answer. KeyError if nobody answers at the path."""
        webhook = self._webhooks[path]
        asked = review["request"]
        request: AdmissionRequest[Any] = _request(webhook, asked)
        response: Object = {"uid": asked["uid"], "allowed": True}
        try:
            answer = await webhook.handler(request)
            if webhook.type == "mutating":
                _add_patch(response, asked["object"], answer.raw)
        except Exception as error:
            response = {"uid": asked["uid"], "allowed": False, "status": _status(webhook, error)}
        if request.warnings:
            response["warnings"] = request.warnings
        return {"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}


def _request(webhook: Webhook, asked: Object) -> AdmissionRequest[Any]:
    new, old = asked.get("object"), asked.get("oldObject")
    user = asked.get("userInfo") or {}
    shown = new if new is not None else old
    assert shown is not None
    name = asked.get("name") or shown["metadata"].get("name") or ""
    return AdmissionRequest(
        asked["operation"],
        ObjectKey(asked.get("namespace") or "", name),
        webhook.view.of(shown),
        webhook.view.of(old) if old is not None else None,
        user.get("username") or "",
        tuple(user.get("groups") or ()),
        bool(asked.get("dryRun")),
        asked.get("subResource") or "",
        asked.get("options") or {},
    )


def _add_patch(response: Object, old: Object, new: Object) -> None:
    # Through JSON: the answer of a handler may share parts with the question, or hold views.
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
