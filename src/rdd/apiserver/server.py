# SPDX-License-Identifier: Apache-2.0
"""One API server: authentication, authorisation, limits and dispatch.

`handle` takes a Request and gives an Answer; who calls it, a socket or a
controller in the same process, makes no difference. The way of a request:

    authenticate → authorise → count in flight → dispatch by path and verb
    → errors become a Status → warnings become headers
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from rdd.api import errors, fieldselectors
from rdd.api.name_validation import path_segment_name_errors
from rdd.apiserver.admission import warnings
from rdd.apiserver.auth import authentication as authn
from rdd.apiserver.auth import impersonation, rbac
from rdd.apiserver.auth.authorizer import Attributes, Authorizer
from rdd.apiserver.core import Core
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.http import bodies
from rdd.apiserver.http import responses as respond
from rdd.apiserver.http.limits import InFlight
from rdd.apiserver.http.request import Answer, Request, page_not_found
from rdd.apiserver.resources import Resource
from rdd.apiserver.verbs.create import create
from rdd.apiserver.verbs.delete import delete, delete_collection
from rdd.apiserver.verbs.get import get
from rdd.apiserver.verbs.list import list_
from rdd.apiserver.verbs.patch import patch
from rdd.apiserver.verbs.update import update
from rdd.apiserver.verbs.watch import watch

log = logging.getLogger("rdd.apiserver")

MAX_DEPTH = 8
"""How deep admission may nest requests before a loop is assumed."""

PathHandler = Callable[[Request], Awaitable[Answer]]
ResourceHandler = Callable[[Core, Request, Resource], Awaitable[Answer]]


class SubresourceHandler(Protocol):
    """Serves one subresource of one resource."""

    async def __call__(self, core: Core, request: Request, resource: Resource, /) -> Answer:
        """Answer the request; the verb is in request.info."""
        ...


class ApiServer:
    """The request side of a server."""

    def __init__(
        self,
        core: Core,
        *,
        authenticator: authn.Authenticator,
        authorizer: Authorizer,
        limits: InFlight | None = None,
        metrics: ServerMetrics | None = None,
    ) -> None:
        self.core = core
        self.authenticator = authenticator
        self.authorizer = authorizer
        self.impersonator = impersonation.Impersonator(authorizer)
        self.limits = limits or InFlight()
        self.metrics = metrics or ServerMetrics()
        self.paths: dict[str, PathHandler] = {}
        """Exact non-resource paths."""
        self.prefixes: list[tuple[str, PathHandler]] = []
        """Non-resource paths by prefix (ending in '/'), after the exact ones."""
        self.subresources: dict[tuple[str, str, str], SubresourceHandler] = {}
        """Group, plural and subresource → handler, for what is not status."""
        self.virtual: dict[tuple[str, str], ResourceHandler] = {}
        """Group and plural of resources that are not stored (reviews)."""

    async def handle(self, request: Request) -> Answer:
        """Answer a request; never raises (but for cancellation)."""
        try:
            answer = await self._admit(request)
        except errors.ApiError as failure:
            answer = respond.error(request, failure)
        except Exception:
            log.exception("request failed: %s %s", request.method, request.path)
            answer = respond.error(
                request, errors.InternalError.because("the request caused an error in the server")
            )
        if request.warnings:
            answer.headers = (answer.headers or []) + warning_headers(request.warnings)
        return answer

    async def _admit(self, request: Request) -> Answer:
        if not request.is_trusted:
            request.user = self.authenticator.authenticate(request)
            if impersonation.is_requested(request.headers):
                request.user = self.impersonator.user(request.headers, Attributes.of(request))
        user = request.user
        if not user.is_master:
            attributes = self._attributes(request)
            decision = self.authorizer.authorize(attributes)
            if not decision.allowed:
                raise rbac.forbidden_error(attributes, decision)
        if request.depth:
            # Nested calls never wait for the limit their own caller holds.
            if request.depth > MAX_DEPTH:
                raise errors.InternalError.because(
                    f"admission has nested more than {MAX_DEPTH} requests"
                )
            return await self._dispatch(request)
        if request.info.verb == "watch":
            return await self._dispatch(request)
        place = self.limits.enter(request.method)
        try:
            return await self._dispatch(request)
        finally:
            self.limits.leave(place)

    @staticmethod
    def _attributes(request: Request) -> Attributes:
        """What is asked for; a list or watch of one name is a question about that name."""
        attributes = Attributes.of(request)
        selector = request.first("fieldSelector")
        if attributes.verb in ("list", "watch") and selector and not attributes.name:
            try:
                name = fieldselectors.parse_field_selector(selector).exact_value("metadata.name")
            except errors.BadRequest:
                name = None  # refused when the list is made
            if name and not path_segment_name_errors(name):
                return replace(attributes, name=name)
        return attributes

    async def _dispatch(self, request: Request) -> Answer:
        info = request.info
        if not info.is_resource:
            return await self._path(request)
        registry = self.core.registry
        resource = registry.get(info.group, info.version, info.resource)
        if resource is None or not self._fits_scope(request, resource):
            if not info.group or registry.has_builtin_group(info.group):
                raise errors.NotFound.resource()
            return page_not_found()
        if info.subresource:
            return await self._subresource(request, resource)
        if resource.deprecation:
            request.warnings.append(resource.deprecation)
        verb = info.verb
        if verb not in resource.verbs or request.method == "HEAD":
            raise errors.MethodNotAllowed()
        handler = self.virtual.get((resource.group, resource.plural)) or _VERBS[verb]
        if len(request.body) >= bodies.OFF_LOOP_BYTES:
            await bodies.prepare(request)
        if verb == "create" and info.name:
            raise errors.MethodNotAllowed()
        if verb in ("update", "patch") and not info.name:
            raise errors.MethodNotAllowed()
        return await handler(self.core, request, resource)

    @staticmethod
    def _fits_scope(request: Request, resource: Resource) -> bool:
        """Whether the path has a namespace where the resource needs one, and only there."""
        info = request.info
        in_namespace = info.parts[0] == "namespaces" and info.resource != "namespaces"
        if not resource.namespaced:
            return not in_namespace
        return in_namespace or not info.name or info.verb == "watch"

    async def _subresource(self, request: Request, resource: Resource) -> Answer:
        info = request.info
        name = info.subresource
        if name not in resource.subresources:
            return resource.unknown_subresource()
        special = self.subresources.get((resource.group, resource.plural, name))
        if special is None and name == "scale":
            special = self.subresources.get(("", "", "scale"))
        if special is not None:
            return await special(self.core, request, resource)
        if info.verb == "get" and request.method == "GET" and name == "status":
            return await get(self.core, request, resource)
        if info.verb == "update":
            return await update(self.core, request, resource, subresource=name)
        if info.verb == "patch" and name == "status":
            return await patch(self.core, request, resource, subresource=name)
        raise errors.MethodNotAllowed()

    async def _path(self, request: Request) -> Answer:
        path = request.path
        handler = self.paths.get(path) or self.paths.get(path.rstrip("/"))
        if handler is None:
            for prefix, candidate in self.prefixes:
                if path.startswith(prefix):
                    handler = candidate
                    break
        if handler is None:
            return page_not_found()
        return await handler(request)


_VERBS: dict[str, ResourceHandler] = {
    "get": get,
    "list": list_,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}


def warning_headers(texts: list[str]) -> list[tuple[str, str]]:
    """Warning headers: each text once, quoted, within the limits all warnings share."""
    shown: list[str] = []
    warnings.add(shown, texts)
    found: list[tuple[str, str]] = []
    for text in shown:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        found.append(("Warning", f'299 - "{quoted}"'))
    return found
