# SPDX-License-Identifier: Apache-2.0
"""The API server: authentication, authorisation, limits and life cycle.

`ApiServer.handle` turns a Request into a response and treats callers alike,
whether they are a socket or a controller in the same process. The steps of a
request:

    authenticate → authorise → count in flight → dispatch (`dispatch.py`)
    → errors become a Status → warnings become headers

`open_server` is the composition root, used by the daemon, the testing plugin
and the benchmarks; `ServerOptions` selects the optional parts. The server has
no socket of its own: `http/listener.py` serves it over HTTP.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rdd.api import errors, fieldselectors, names
from rdd.api.fielderrors import FieldError
from rdd.api.name_validation import path_segment_name_errors
from rdd.apiserver import bootstrap
from rdd.apiserver.admission import warnings
from rdd.apiserver.admission.chain import Chain, Plugin
from rdd.apiserver.admission.client import WebhookClient
from rdd.apiserver.admission.dependencies import AdmissionDependencies
from rdd.apiserver.admission.expression_checks import check_expression
from rdd.apiserver.admission.fencing import Fencing
from rdd.apiserver.admission.in_process_webhooks import InProcessEndpoints
from rdd.apiserver.admission.matching import Matcher
from rdd.apiserver.admission.mutating import MutatingWebhooks
from rdd.apiserver.admission.namespace_lifecycle import NamespaceLifecycle
from rdd.apiserver.admission.policies import ValidatingPolicies
from rdd.apiserver.admission.validating import ValidatingWebhooks
from rdd.apiserver.auth import impersonation, rbac
from rdd.apiserver.auth.authentication import Authenticator
from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.auth.reviews import Reviewer
from rdd.apiserver.auth.tokens import TokenIssuer
from rdd.apiserver.components import Core
from rdd.apiserver.crd.lifecycle import CustomResources
from rdd.apiserver.dispatch import Dispatcher
from rdd.apiserver.endpoints.health import HealthEndpoint
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.http import responses
from rdd.apiserver.http.limits import InFlight
from rdd.apiserver.http.options import check_timeout
from rdd.apiserver.http.request import NO_SNIFF, AnyResponse, Request, User
from rdd.apiserver.kinds.catalog import builtin_kinds, review_kinds
from rdd.apiserver.kinds.resources import make_resource
from rdd.apiserver.passthrough.routing import PassthroughRoutes
from rdd.apiserver.resources import ResourceRegistry
from rdd.apiserver.routes import make_routes
from rdd.apiserver.state.cache import ObjectCache
from rdd.apiserver.state.lister import CachedLister
from rdd.store.contract import Store

log = logging.getLogger("rdd.apiserver")

MAX_DEPTH = 8
"""The maximum nesting of requests made by admission; deeper nesting is a loop."""


@dataclass(slots=True)
class ServerOptions:
    """The options of a server."""

    tokens: Mapping[str, User] = field(default_factory=dict)
    """Static bearer tokens and their users."""
    signing_key: bytes = b""
    """PEM of the EC key for service account tokens; empty disables such tokens."""
    address: str = "127.0.0.1:6443"
    """host:port that discovery returns to clients."""
    clock: Callable[[], float] = time.time
    limits: InFlight = field(default_factory=InFlight)
    version_suffix: str = ""
    """Suffix of the Kubernetes version in /version."""
    plugins: Sequence[Plugin] = ()
    """Further admission plugins, after the built-in ones."""
    endpoints: InProcessEndpoints = field(default_factory=InProcessEndpoints)
    """Webhooks of this process, called without a socket."""


class ApiServer:
    """An API server without a socket; `handle` is its only entry point."""

    def __init__(
        self,
        core: Core,
        lister: CachedLister,
        authorizer: RbacAuthorizer,
        webhooks: WebhookClient,
        options: ServerOptions,
    ) -> None:
        self.core = core
        self.lister = lister
        self.limits = options.limits
        self.metrics = ServerMetrics()
        self.endpoints = webhooks.endpoints
        self.passthroughs = PassthroughRoutes()
        """Paths that controllers serve themselves."""
        self.healthz = HealthEndpoint("healthz")
        self.livez = HealthEndpoint("livez")
        self.readyz = HealthEndpoint("readyz")
        clock, key = options.clock, options.signing_key
        issuer = TokenIssuer(key, now=clock) if key else None
        self._authenticator = Authenticator(options.tokens, issuer=issuer, lister=lister, now=clock)
        self._authorizer = authorizer
        self._impersonator = impersonation.Impersonator(authorizer)
        self._webhooks = webhooks
        routes = make_routes(
            core,
            address=options.address,
            version_suffix=options.version_suffix,
            health=(self.healthz, self.livez, self.readyz),
            metrics=self.metrics,
            passthroughs=self.passthroughs,
            reviewer=Reviewer(self._authenticator, authorizer, authorizer, clock),
            issuer=issuer,
            lister=lister,
        )
        self._dispatcher = Dispatcher(core, routes)
        definitions = core.registry.get(names.EXTENSIONS_GROUP, "v1", "customresourcedefinitions")
        assert definitions is not None
        self.custom = CustomResources(core, definitions, webhooks)
        self._api_services = bootstrap.ApiServices(self.handle, lister, core.registry)
        self._tasks: list[asyncio.Task[None]] = []
        self._add_gauges()

    # -- requests

    async def handle(self, request: Request) -> AnyResponse:
        """Respond to a request; never raises, except when cancelled."""
        try:
            answer = await self._handle(request)
        except errors.ApiError as failure:
            answer = responses.error(request, failure)
        except Exception:
            log.exception("request failed: %s %s", request.method, request.path)
            answer = responses.error(
                request, errors.InternalError.because("the request caused an error in the server")
            )
        if request.warnings:
            answer.headers = (answer.headers or []) + warning_headers(request.warnings)
        return answer

    async def _handle(self, request: Request) -> AnyResponse:
        if "timeout" in request.query and request.info.verb != "watch":
            check_timeout(request)
        if not request.is_trusted:
            request.user = self._authenticator.authenticate(request)
            if impersonation.is_requested(request.headers):
                request.user = self._impersonator.user(
                    request.headers, AuthorizationAttributes.of(request)
                )
        user = request.user
        if not user.is_master:
            attributes = _attributes(request)
            decision = self._authorizer.authorize(attributes)
            if not decision.allowed:
                denied = responses.error(request, rbac.forbidden_error(attributes, decision))
                denied.headers = [NO_SNIFF]
                return denied
        if request.depth:
            # Not counted: a nested request would wait for the limit that its caller occupies.
            if request.depth > MAX_DEPTH:
                raise errors.InternalError.because(
                    f"admission has nested more than {MAX_DEPTH} requests"
                )
            return await self._dispatcher.dispatch(request)
        if request.info.verb == "watch":
            return await self._dispatcher.dispatch(request)
        slot = self.limits.enter(request.method)
        try:
            return await self._dispatcher.dispatch(request)
        finally:
            self.limits.leave(slot)

    # -- life cycle

    async def start(self) -> None:
        """Serve the stored CRDs, write the default objects, start the background tasks."""
        self.custom.load()
        await bootstrap.bootstrap(self.handle, self.lister, self.core.registry)
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self.custom.run(), name="rdd-crds"),
            loop.create_task(self._api_services.run(), name="rdd-apiservices"),
        ]

    async def close(self) -> None:
        """End all watches and background tasks; the store stays open."""
        for hub in list(self.core.watchers.values()):
            hub.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._webhooks.close()
        self.core.cache.close()

    def _add_gauges(self) -> None:
        core, gauge = self.core, self.metrics.add_gauge
        gauge("apiserver_current_inflight_requests_mutating", "Writing requests in flight.",
              lambda: self.limits.writing)  # fmt: skip
        gauge("apiserver_current_inflight_requests_reading", "Reading requests in flight.",
              lambda: self.limits.reading)  # fmt: skip
        gauge("apiserver_registered_watchers", "Open watches.", lambda: core.watch_count)
        gauge("rdd_store_revision", "The newest revision.", lambda: core.cache.revision)


async def open_server(store: Store, options: ServerOptions | None = None) -> ApiServer:
    """Return a started server on a store."""
    options = options or ServerOptions()
    cache = ObjectCache(store)
    await cache.load()
    registry = _make_registry(cache)
    lister = CachedLister(registry)
    authorizer = RbacAuthorizer(lister)
    webhooks = WebhookClient(options.endpoints)
    chain = _make_admission_chain(registry, lister, authorizer, webhooks, options)
    core = Core(store, cache, registry, admission=chain, clock=options.clock)
    core.rbac = authorizer
    server = ApiServer(core, lister, authorizer, webhooks, options)
    await server.start()
    return server


def _make_registry(cache: ObjectCache) -> ResourceRegistry:
    registry = ResourceRegistry()
    kinds = builtin_kinds(check_rules=_check_rules, check_expression=check_expression)
    for kind in (*kinds, *review_kinds()):
        registry.add_builtin(make_resource(kind, cache))
    return registry


def _make_admission_chain(
    registry: ResourceRegistry,
    lister: CachedLister,
    authorizer: RbacAuthorizer,
    webhooks: WebhookClient,
    options: ServerOptions,
) -> Chain:
    """Return the plugins in the order of Kubernetes."""
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
            *options.plugins,
            Fencing(lister, options.clock),
        ]
    )


def _check_rules(schema: Mapping[str, Any], path: str) -> list[FieldError]:
    # CEL is large, and most servers start without a new CRD.
    from rdd.schema.rules.checks import check_rules

    return check_rules(schema, path)


def _attributes(request: Request) -> AuthorizationAttributes:
    """Return what to authorise; a list or watch of one name is authorised for that name."""
    attributes = AuthorizationAttributes.of(request)
    selector = request.first("fieldSelector")
    if attributes.verb in ("list", "watch") and selector and not attributes.name:
        try:
            name = fieldselectors.parse_field_selector(selector).exact_value("metadata.name")
        except errors.BadRequest:
            name = None  # the handler refuses the selector
        if name and not path_segment_name_errors(name):
            return replace(attributes, name=name)
    return attributes


def warning_headers(texts: list[str]) -> list[tuple[str, str]]:
    """Return Warning headers: each text once, quoted, within the limits all warnings share."""
    shown: list[str] = []
    warnings.add(shown, texts)
    found: list[tuple[str, str]] = []
    for text in shown:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        found.append(("Warning", f'299 - "{quoted}"'))
    return found
