# SPDX-License-Identifier: Apache-2.0
"""Which paths exist: the route tables of the API server.

Most paths are those of resources: `ResourceRegistry` lists them and `dispatch.py`
selects the handler by verb. `Routes` lists everything else:

- `paths` and `prefixes`: paths that are no resources (discovery, health, metrics, …)
- `virtual`: resources that are served but not stored (reviews)
- `subresources`: subresources with a handler of their own (`status` has none)

`make_routes` lists all paths of the server itself; a new one is one line there. The daemon adds
those that need it (`daemon/service_endpoints.py`, `daemon/dashboard.py`) to the same tables.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from rdd.api import mediatypes, names
from rdd.apiserver.auth import review_endpoints
from rdd.apiserver.auth.authorizer import Lister
from rdd.apiserver.auth.reviews import REVIEWS, Reviewer
from rdd.apiserver.auth.tokens import TokenIssuer
from rdd.apiserver.components import Core
from rdd.apiserver.endpoints import version
from rdd.apiserver.endpoints.discovery import DiscoveryEndpoint
from rdd.apiserver.endpoints.health import HealthEndpoint, service_levels
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.endpoints.openapi import OpenApiEndpoint
from rdd.apiserver.http import negotiation, responses
from rdd.apiserver.http.request import AnyResponse, Request, Response
from rdd.apiserver.passthrough.routing import PassthroughRoutes
from rdd.apiserver.resources import Resource, ResourceRegistry
from rdd.apiserver.verbs import scale

PathHandler = Callable[[Request], Awaitable[AnyResponse]]
ResourceHandler = Callable[[Core, Request, Resource], Awaitable[AnyResponse]]

_ANY_SCALE = ("", "", "scale")


class Routes:
    """The handlers of everything that is not a stored resource."""

    def __init__(self) -> None:
        self.paths: dict[str, PathHandler] = {}
        """Handlers by exact path."""
        self.documents: dict[str, PathHandler] = {}
        """Handlers by path; trailing slashes do not matter, as in Kubernetes."""
        self.prefixes: list[tuple[str, PathHandler]] = []
        """Handlers by prefix (ending in '/'); exact paths take precedence."""
        self.virtual: dict[tuple[str, str], ResourceHandler] = {}
        """Handlers by group and plural."""
        self.subresources: dict[tuple[str, str, str], ResourceHandler] = {}
        """Handlers by group, plural and subresource."""

    def find_path(self, path: str) -> PathHandler | None:
        """Return the handler of a path that is no resource."""
        handler = self.paths.get(path)
        if handler is None and not path.startswith("//"):
            handler = self.documents.get(path.rstrip("/"))
        if handler is not None:
            return handler
        return next((found for prefix, found in self.prefixes if path.startswith(prefix)), None)

    def find_subresource(self, resource: Resource, name: str) -> ResourceHandler | None:
        """Return the handler of a subresource, None if the standard verbs serve it."""
        handler = self.subresources.get((resource.group, resource.plural, name))
        if handler is None and name == "scale":
            return self.subresources.get(_ANY_SCALE)
        return handler


def make_routes(
    core: Core,
    *,
    address: str,
    version_suffix: str,
    health: Iterable[HealthEndpoint],
    metrics: ServerMetrics,
    passthroughs: PassthroughRoutes,
    reviewer: Reviewer,
    issuer: TokenIssuer | None,
    lister: Lister,
) -> Routes:
    """Return the routes of a server; without an issuer there are no token endpoints."""
    discovery = DiscoveryEndpoint(core, address=address)
    documents = OpenApiEndpoint(core)
    routes = Routes()
    routes.documents |= {
        "/api": discovery.handle,
        "/apis": discovery.handle,
        "/version": version.handler(version_suffix),
    }
    routes.paths |= {
        "/": partial(_index, routes=routes, registry=core.registry),
        "/openapi/v2": documents.handle,
        "/openapi/v3": documents.handle,
        "/metrics": partial(_metrics, metrics=metrics),
        "/metrics/slis": partial(_service_levels, health=tuple(health)),
    }
    routes.prefixes += [
        ("/api/", discovery.handle),
        ("/apis/", discovery.handle),
        ("/openapi/v3/", documents.handle),
        (names.PASSTHROUGH_PREFIX, passthroughs.handle),
    ]
    for endpoint in health:
        routes.paths[f"/{endpoint.name}"] = endpoint.handle
        routes.prefixes.append((f"/{endpoint.name}/", endpoint.handle))
    for key in REVIEWS:
        routes.virtual[key] = partial(review_endpoints.review, reviewer=reviewer)
    routes.subresources[_ANY_SCALE] = scale.handle
    if issuer is not None:
        routes.subresources["", "serviceaccounts", "token"] = partial(
            review_endpoints.token, issuer=issuer, lister=lister
        )
        routes.documents |= {
            "/.well-known/openid-configuration": partial(_openid_configuration, issuer=issuer),
            "/openid/v1/jwks": partial(_openid_keys, issuer=issuer),
        }
    return routes


async def _index(request: Request, *, routes: Routes, registry: ResourceRegistry) -> AnyResponse:
    group_versions = [(group, v) for group, v in registry.group_versions() if group]
    paths = {"/api/v1", *routes.paths, *routes.documents}
    paths |= {f"/apis/{group}/{v}" for group, v in group_versions}
    paths |= {f"/apis/{group}" for group, _ in group_versions}
    return responses.value(request, {"paths": sorted(paths - {"/"})})


async def _service_levels(request: Request, *, health: tuple[HealthEndpoint, ...]) -> AnyResponse:
    text = service_levels(health).encode()
    return Response(200, text, content_type="text/plain; version=0.0.4; charset=utf-8")


async def _metrics(request: Request, *, metrics: ServerMetrics) -> AnyResponse:
    return Response(
        200, metrics.render().encode(), content_type="text/plain; version=0.0.4; charset=utf-8"
    )


async def _openid_configuration(request: Request, *, issuer: TokenIssuer) -> AnyResponse:
    negotiation.check_published(request, mediatypes.JSON)
    host = request.headers.get("Host", "") or "localhost"
    return issuer.discovery(f"https://{host}/openid/v1/jwks")


async def _openid_keys(request: Request, *, issuer: TokenIssuer) -> AnyResponse:
    negotiation.check_published(request, "application/jwk-set+json")
    return issuer.key_set()
