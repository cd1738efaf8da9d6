# SPDX-License-Identifier: Apache-2.0
"""From a request to its handler.

A path names either a resource of the registry, whose handler the verb selects,
or a route of `routes.py`. Requests arrive here authenticated, authorised and
counted (see `server.py`); a handler raises an ApiError for everything it
refuses.
"""

from rdd.api import errors
from rdd.apiserver.components import Core
from rdd.apiserver.http import bodies, negotiation
from rdd.apiserver.http.request import AnyResponse, Request, page_not_found
from rdd.apiserver.resources import Resource
from rdd.apiserver.routes import ResourceHandler, Routes
from rdd.apiserver.state.freshness import READS, catch_up, write_current
from rdd.apiserver.verbs.create import create
from rdd.apiserver.verbs.delete import delete, delete_collection
from rdd.apiserver.verbs.get import get
from rdd.apiserver.verbs.list import list_
from rdd.apiserver.verbs.patch import check_patch_type, patch
from rdd.apiserver.verbs.update import update
from rdd.apiserver.verbs.watch import watch

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


class Dispatcher:
    """Calls the handler of a request."""

    def __init__(self, core: Core, routes: Routes) -> None:
        self._core = core
        self._routes = routes
        self._may_lag = core.store.is_distributed

    async def dispatch(self, request: Request) -> AnyResponse:
        """Return the response of the handler; raise ApiError if it refuses or none exists."""
        info = request.info
        if not info.is_resource:
            path_handler = self._routes.find_path(request.path)
            return page_not_found() if path_handler is None else await path_handler(request)
        if request.path.startswith("//"):  # authorised as if it had one slash, but no route
            return page_not_found()
        registry = self._core.registry
        resource = registry.get(info.group, info.version, info.resource)
        if resource is None or not _fits_scope(request, resource):
            if not info.group or registry.has_builtin_group(info.group):
                raise errors.NotFound.resource()
            return page_not_found()
        if not self._may_lag:
            return await self._call(request, resource)
        if info.verb in READS:
            await catch_up(self._core, request)
            return await self._call(request, resource)
        return await write_current(self._core, request, lambda: self._call(request, resource))

    async def _call(self, request: Request, resource: Resource) -> AnyResponse:
        info = request.info
        if info.subresource:
            if resource.is_routed:
                negotiation.check_route(request, has_streams=False)
            return await self._dispatch_subresource(request, resource)
        if resource.deprecation:
            request.warnings.append(resource.deprecation)
        verb = info.verb
        if verb not in resource.verbs or request.method == "HEAD":
            raise errors.MethodNotAllowed()
        handler = self._routes.virtual.get((resource.group, resource.plural)) or _VERBS[verb]
        if len(request.body) >= bodies.OFF_LOOP_BYTES:
            await bodies.prepare(request)
        if verb == "create" and info.name:
            raise errors.MethodNotAllowed()
        if verb in ("update", "patch") and not info.name:
            raise errors.MethodNotAllowed()
        if resource.is_routed:
            if verb == "patch":
                check_patch_type(request, resource)  # Routes compare Content-Type before Accept.
            negotiation.check_route(request, has_streams=verb in ("list", "watch"))
        return await handler(self._core, request, resource)

    async def _dispatch_subresource(self, request: Request, resource: Resource) -> AnyResponse:
        info = request.info
        name = info.subresource
        if name not in resource.subresources:
            resource.unknown_subresource(info.name)
        handler = self._routes.find_subresource(resource, name)
        if handler is not None:
            return await handler(self._core, request, resource)
        if info.verb == "get" and request.method == "GET" and name == "status":
            return await get(self._core, request, resource)
        if info.verb == "update":
            return await update(self._core, request, resource, subresource=name)
        if info.verb == "patch" and name == "status":
            return await patch(self._core, request, resource, subresource=name)
        raise resource.unsupported_verb(info.verb)


def _fits_scope(request: Request, resource: Resource) -> bool:
    """Return whether the path has a namespace exactly where the resource needs one."""
    info = request.info
    parts = info.parts
    is_nested = len(parts) > 2 and parts[2] == "namespaces"  # namespaces/x/namespaces
    in_namespace = parts[0] == "namespaces" and (info.resource != "namespaces" or is_nested)
    if not resource.namespaced:
        return not in_namespace
    return in_namespace or not info.name or info.verb == "watch"
