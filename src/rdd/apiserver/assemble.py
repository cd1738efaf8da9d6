# SPDX-License-Identifier: Apache-2.0
"""Putting an API server together: store, kinds, admission, identity, documents.

`open_server` is the one composition root of the server, used by the daemon,
the testing plugin and the benchmarks alike; what they do not want they leave
out of `ServerOptions`.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rdd.api.fielderrors import FieldError
from rdd.apiserver import bootstrap
from rdd.apiserver.admission.client import WebhookClient
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.endpoints import InProcessEndpoints
from rdd.apiserver.admission.expression_checks import check_expression
from rdd.apiserver.admission.fencing import Fencing
from rdd.apiserver.admission.lifecycle import NamespaceLifecycle
from rdd.apiserver.admission.matching import Matcher
from rdd.apiserver.admission.mutating import MutatingWebhooks
from rdd.apiserver.admission.policies import ValidatingPolicies
from rdd.apiserver.admission.types import Chain, Plugin
from rdd.apiserver.admission.validating import ValidatingWebhooks
from rdd.apiserver.auth import review_endpoints as review_handlers
from rdd.apiserver.auth.authentication import Authenticator
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.auth.reviews import Reviewer
from rdd.apiserver.auth.tokens import TokenIssuer
from rdd.apiserver.core import CachedLister, Core
from rdd.apiserver.crd.lifecycle import CustomResources
from rdd.apiserver.endpoints import version
from rdd.apiserver.endpoints.discovery import Discovery
from rdd.apiserver.endpoints.health import Health
from rdd.apiserver.endpoints.openapi import Documents
from rdd.apiserver.http.limits import InFlight
from rdd.apiserver.http.request import Answer, Request, Response, User
from rdd.apiserver.kinds.catalog import builtin_kinds, review_kinds
from rdd.apiserver.kinds.resources import make_resource
from rdd.apiserver.passthrough.routing import PREFIX, Passthroughs
from rdd.apiserver.resources import Registry
from rdd.apiserver.server import ApiServer
from rdd.apiserver.state.cache import Cache
from rdd.apiserver.verbs import scale
from rdd.store.contract import Store


@dataclass(slots=True)
class ServerOptions:
    """What can be chosen about a server."""

    tokens: Mapping[str, User] = field(default_factory=dict)
    """Static bearer tokens and whom they identify."""
    signing_key: bytes = b""
    """PEM of the EC key for service account tokens; empty: there are no such tokens."""
    address: str = "127.0.0.1:6443"
    """host:port that discovery tells clients."""
    clock: Callable[[], float] = time.time
    limits: InFlight = field(default_factory=InFlight)
    version_suffix: str = ""
    """Behind the Kubernetes version in /version."""
    plugins: Sequence[Plugin] = ()
    """Further admission plugins, after the built-in ones."""
    endpoints: InProcessEndpoints = field(default_factory=InProcessEndpoints)
    """Webhooks of this process, called without a socket."""


class Server:
    """An API server without a socket; `handle` is its only door."""

    def __init__(
        self, core: Core, api: ApiServer, lister: CachedLister, webhooks: WebhookClient
    ) -> None:
        self.core = core
        self.api = api
        self.lister = lister
        self.endpoints = webhooks.endpoints
        self.passthroughs = Passthroughs()
        """What controllers answer themselves."""
        self._webhooks = webhooks
        self.healthz, self.livez, self.readyz = (
            Health("healthz"),
            Health("livez"),
            Health("readyz"),
        )
        definitions = core.registry.get("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        assert definitions is not None
        self.custom = CustomResources(core, definitions, webhooks)
        self._api_services = bootstrap.ApiServices(self.handle, lister, core.registry)
        self._tasks: list[asyncio.Task[None]] = []

    async def handle(self, request: Request) -> Answer:
        """Answer a request."""
        return await self.api.handle(request)

    async def start(self) -> None:
        """Serve what is stored, write what must be there, start the background work."""
        self.custom.load()
        await bootstrap.bootstrap(self.handle, self.lister, self.core.registry)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self.custom.run(), name="rdd-crds"),
            loop.create_task(self._api_services.run(), name="rdd-apiservices"),
        ]

    async def close(self) -> None:
        """End all watches and background work; the store stays open."""
        for hub in list(self.core.watchers.values()):
            hub.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._webhooks.close()
        self.core.cache.close()


async def open_server(store: Store, options: ServerOptions | None = None) -> Server:
    """A server on a store, started and ready to answer."""
    options = options or ServerOptions()
    cache = Cache(store)
    await cache.load()
    registry = Registry()
    kinds = builtin_kinds(check_rules=_check_rules, check_expression=check_expression)
    for kind in (*kinds, *review_kinds()):
        registry.add_builtin(make_resource(kind, cache))
    lister = CachedLister(registry)
    authorizer = RbacAuthorizer(lister)
    webhooks = WebhookClient(options.endpoints)
    further = (*options.plugins, Fencing(lister, options.clock))
    chain = _admission(registry, lister, authorizer, webhooks, further)
    core = Core(store, cache, registry, admission=chain, clock=options.clock)
    issuer = TokenIssuer(options.signing_key, now=options.clock) if options.signing_key else None
    authenticator = Authenticator(options.tokens, issuer=issuer, lister=lister, now=options.clock)
    core.rbac = authorizer
    api = ApiServer(core, authenticator=authenticator, authorizer=authorizer, limits=options.limits)
    server = Server(core, api, lister, webhooks)
    reviewer = Reviewer(authenticator, authorizer, authorizer, options.clock)
    review_handlers.install(api, reviewer, issuer, lister)
    api.subresources[("", "", "scale")] = scale.handle
    _install_paths(server, options)
    await server.start()
    return server


def _admission(
    registry: Registry,
    lister: CachedLister,
    authorizer: RbacAuthorizer,
    webhooks: WebhookClient,
    further: Sequence[Plugin],
) -> Chain:
    """The plugins in the order of Kubernetes."""
    namespaces = registry.get("", "v1", "namespaces")
    assert namespaces is not None
    dependencies = AdmissionDependencies(
        lister, registry, Matcher(namespaces.cache), authorizer, webhooks
    )
    return Chain(
        [
            NamespaceLifecycle(namespaces.cache),
            MutatingWebhooks(dependencies),
            ValidatingPolicies(dependencies),
            ValidatingWebhooks(dependencies),
            *further,
        ]
    )


def _check_rules(schema: Mapping[str, Any], path: str) -> list[FieldError]:
    # CEL is large, and most servers start without a new CRD.
    from rdd.schema.rules.checks import check_rules

    return check_rules(schema, path)


def _install_paths(server: Server, options: ServerOptions) -> None:
    api = server.api
    discovery = Discovery(server.core, address=options.address)
    documents = Documents(server.core)
    shown = version.handler(options.version_suffix)
    for path, handler in (
        ("/api", discovery.handle),
        ("/apis", discovery.handle),
        ("/openapi/v2", documents.handle),
        ("/openapi/v3", documents.handle),
        ("/version", shown),
    ):
        api.paths[path] = handler
    for health in (server.healthz, server.livez, server.readyz):
        api.paths[f"/{health.name}"] = health.handle
        api.prefixes.append((f"/{health.name}/", health.handle))
    api.prefixes += [
        ("/api/", discovery.handle),
        ("/apis/", discovery.handle),
        ("/openapi/v3/", documents.handle),
        (PREFIX, server.passthroughs.handle),
    ]

    async def metrics(request: Request) -> Answer:
        return Response(
            200,
            api.metrics.render().encode(),
            content_type="text/plain; version=0.0.4; charset=utf-8",
        )

    async def root(request: Request) -> Answer:
        from rdd.apiserver.http import responses as respond

        known = {"/api/v1", *api.paths}
        known |= {f"/apis/{g}/{v}" for g, v in server.core.registry.group_versions() if g}
        known |= {f"/apis/{g}" for g, _ in server.core.registry.group_versions() if g}
        return respond.value(request, {"paths": sorted(known - {""})})

    api.paths["/metrics"] = metrics
    api.paths[""] = root
    gauge = api.metrics.add_gauge
    gauge("apiserver_current_inflight_requests_mutating", "Writing requests in flight.",
          lambda: api.limits.writing)  # fmt: skip
    gauge("apiserver_current_inflight_requests_reading", "Reading requests in flight.",
          lambda: api.limits.reading)  # fmt: skip
    gauge("apiserver_registered_watchers", "Open watches.", lambda: server.core.watch_count)
    gauge("rdd_store_revision", "The newest revision.", lambda: server.core.cache.revision)
