# SPDX-License-Identifier: Apache-2.0
"""The API server: authentication, authorisation, limits and life cycle.

`ApiServer.handle` turns a Request into a response and treats callers alike,
whether they are a socket or a controller in the same process. The steps of a
request:

    authenticate → authorise → read the body → count in flight → dispatch (`dispatch.py`)
    → errors become a Status → warnings become headers

`open_server` is the composition root, used by the daemon, the testing plugin
and the benchmarks; `ServerOptions` selects the optional parts. The server has
no socket of its own: `http/listener.py` serves it over HTTP.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rdd.api import errors, names
from rdd.api.fielderrors import FieldError
from rdd.apiserver import bootstrap
from rdd.apiserver.admission import warnings
from rdd.apiserver.admission.chain import Plugin
from rdd.apiserver.admission.client import WebhookClient
from rdd.apiserver.admission.exemption import is_from_daemon
from rdd.apiserver.admission.expression_checks import check_expression
from rdd.apiserver.admission.in_process_webhooks import InProcessEndpoints
from rdd.apiserver.admission_plugins import make_chain
from rdd.apiserver.auth import impersonation, rbac
from rdd.apiserver.auth.authentication import Authenticator
from rdd.apiserver.auth.authorizer import AuthorizationAttributes
from rdd.apiserver.auth.ceiling import Ceiling
from rdd.apiserver.auth.rbac import RbacAuthorizer
from rdd.apiserver.auth.reviews import Reviewer
from rdd.apiserver.auth.tokens import TokenIssuer
from rdd.apiserver.components import Core
from rdd.apiserver.crd.lifecycle import CustomResources
from rdd.apiserver.dispatch import Dispatcher
from rdd.apiserver.endpoints.health import HealthEndpoint
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.fairness import InFlight
from rdd.apiserver.http import responses
from rdd.apiserver.http.options import check_timeout, selected_name
from rdd.apiserver.http.request import NO_SNIFF, AnyResponse, Request, User
from rdd.apiserver.kinds.catalog import builtin_kinds, review_kinds
from rdd.apiserver.kinds.resources import make_resource
from rdd.apiserver.passthrough.routing import PassthroughRoutes
from rdd.apiserver.quota.admission import ResourceQuotas
from rdd.apiserver.quota.usage import UsageController
from rdd.apiserver.resources import ResourceRegistry
from rdd.apiserver.routes import make_routes
from rdd.apiserver.state import quarantine
from rdd.apiserver.state.cache import ObjectCache
from rdd.apiserver.state.lister import CachedLister
from rdd.store.contract import Store, StoreUnreachable

if TYPE_CHECKING:
    from rdd.apiserver.audit.auditor import Auditor
    from rdd.profiles.current import CurrentProfile

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
    audit: "Auditor | None" = None
    """Writes the audit log; None: there is none, at no cost."""
    counts_quotas: bool = False
    """Whether the status of ResourceQuotas is filled; they are enforced in any case."""
    is_recreated: Callable[[str], bool] = lambda _: False
    """Whether the owner of the server writes the object with a store key again at each start."""
    profile: "CurrentProfile | None" = None
    """The deployment profile, enforced by admission; None: there is none, and none can appear."""
    has_user_admission: bool = True
    """Whether webhooks outside of this process and admission policies take effect."""


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
        self.audit = options.audit
        self.metrics = ServerMetrics(lambda name: core.registry.serves(*name))
        core.registry.on_removal = self.metrics.forget
        self.endpoints = webhooks.endpoints
        self.passthroughs = PassthroughRoutes()
        """Paths that controllers serve themselves."""
        self.healthz = HealthEndpoint("healthz")
        self.livez = HealthEndpoint("livez")
        self.readyz = HealthEndpoint("readyz")
        for endpoint in (self.healthz, self.livez, self.readyz):
            endpoint.add("log", lambda: "")
            endpoint.add("etcd", self._store_failure)
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
        self.routes = routes
        self._dispatcher = Dispatcher(core, routes)
        definitions = core.registry.get(names.EXTENSIONS_GROUP, "v1", "customresourcedefinitions")
        assert definitions is not None
        self.custom = CustomResources(core, definitions, webhooks)
        self._api_services = bootstrap.ApiServices(self.handle, core.registry)
        self.controllers: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
            "rdd-crds": self.custom.run,
            "rdd-apiservices": self._api_services.run,
        }
        """Background tasks by name; they run from start to close."""
        self._tasks: list[asyncio.Task[None]] = []
        self._add_gauges()
        core.store.on_gap(self._end_watches)

    def _end_watches(self, revision: int) -> None:
        """End all watches: changes up to a revision were lost, so their clients list again."""
        log.warning("all watches end: changes up to revision %d were compacted", revision)
        hubs = list(self.core.watchers.values())
        self.core.watchers.clear()
        for hub in hubs:
            hub.close()

    def _store_failure(self) -> str:
        """Return why the store cannot be read; its check has the name clients expect."""
        return self.core.store.problem() if self.core.store.is_distributed else ""

    # -- requests

    async def handle(self, request: Request) -> AnyResponse:
        """Respond to a request; never raises, except when cancelled."""
        try:
            answer = await self._handle(request)
        except errors.ApiError as failure:
            answer = responses.error(request, failure)
        except StoreUnreachable as failure:
            answer = responses.error(
                request, errors.ServiceUnavailable(str(failure), retry_after_s=1)
            )
        except Exception:
            log.exception("request failed: %s %s", request.method, request.path)
            answer = responses.error(
                request, errors.InternalError.because("the request caused an error in the server")
            )
        if self.audit is not None:
            self.audit.end(request, answer)
        if request.warnings:
            answer.headers = (answer.headers or []) + warning_headers(request.warnings)
        return answer

    def set_ceiling(self, ceiling: Ceiling | None) -> None:
        """Limit what clients may do from now on; watches end, and those still allowed return."""
        if ceiling is None and self._authorizer.ceiling is None:
            return
        self._authorizer.ceiling = ceiling
        for hub in list(self.core.watchers.values()):
            self.core.end_watches(hub.resource)

    def _limit(self, request: Request, ceiling: Ceiling) -> None:
        """Take a client out of system:masters; only requests of this process are trusted."""
        if not (request.is_trusted and is_from_daemon(request.user)):
            request.user = ceiling.limited(request.user)

    async def _handle(self, request: Request) -> AnyResponse:
        if "timeout" in request.query and request.info.verb != "watch":
            check_timeout(request)
        if not request.is_trusted:
            self._authenticate(request)
        elif self.audit is not None:
            self.audit.begin(request, request.user)
        if (ceiling := self._authorizer.ceiling) is not None:
            self._limit(request, ceiling)
        user = request.user
        if user.is_master:
            if self.audit is not None:
                self.audit.authorized(request, allowed=True, reason="")
        else:
            attributes = _attributes(request)
            decision = self._authorizer.authorize(attributes)
            if self.audit is not None:
                allowed, reason = decision.allowed, decision.reason
                self.audit.authorized(request, allowed=allowed, reason=reason)
            if not decision.allowed:
                denied = responses.error(request, rbac.forbidden_error(attributes, decision))
                denied.headers = [NO_SNIFF]
                return denied
        if request.load_body is not None:
            # Only now: what an unauthorised client sends is not worth memory.
            request.body = await request.load_body()
        if request.depth:
            # Not counted: a nested request would wait for the limit that its caller occupies.
            if request.depth > MAX_DEPTH:
                raise errors.InternalError.because(
                    f"admission has nested more than {MAX_DEPTH} requests"
                )
            return await self._dispatcher.dispatch(request)
        if request.info.verb == "watch":
            return await self._dispatcher.dispatch(request)
        place = self.limits.enter(request)
        try:
            return await self._dispatcher.dispatch(request)
        finally:
            self.limits.leave(place)

    def _authenticate(self, request: Request) -> None:
        """Set the user of a request, after impersonation."""
        audit = self.audit
        try:
            request.user = self._authenticator.authenticate(request)
        except errors.Unauthorized:
            if audit is not None:
                audit.begin(request, User(""))
            raise
        if audit is not None:
            audit.begin(request, request.user)
        if impersonation.is_requested(request.headers):
            request.user = self._impersonator.user(
                request.headers, AuthorizationAttributes.of(request)
            )
            if audit is not None:
                audit.impersonated(request)

    def replace_tokens(self, tokens: Mapping[str, User]) -> None:
        """Accept other static tokens from now on, and end all watches.

        Clients with a valid token watch again, from where they were.
        """
        self._authenticator.replace_tokens(tokens)
        for hub in list(self.core.watchers.values()):
            self.core.end_watches(hub.resource)

    # -- life cycle

    async def start(self) -> None:
        """Serve the stored CRDs, write the default objects, start the background tasks."""
        self.custom.load()
        await bootstrap.bootstrap(self.handle, self.lister, self.core.registry)
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(run(), name=name) for name, run in self.controllers.items()]

    async def close(self) -> None:
        """End all watches and background tasks; the store stays open."""
        for hub in list(self.core.watchers.values()):
            hub.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._webhooks.close()
        self.core.cache.close()
        if self.audit is not None:
            self.audit.close()

    def _add_gauges(self) -> None:
        core, gauge = self.core, self.metrics.add_gauge
        gauge("apiserver_current_inflight_requests_mutating", "Writing requests in flight.",
              lambda: self.limits.writing)  # fmt: skip
        gauge("apiserver_current_inflight_requests_reading", "Reading requests in flight.",
              lambda: self.limits.reading)  # fmt: skip
        gauge("apiserver_registered_watchers", "Open watches.", lambda: core.watch_count)
        gauge("rdd_watch_lag_bytes", "What watchers have not read yet, one copy for all.",
              lambda: core.lag.total)  # fmt: skip
        gauge("rdd_watchers_lagging", "Watches that lag.", lambda: core.lag.watchers)
        gauge("rdd_watchers_closed", "Watches closed because all together lagged too far.",
              lambda: core.lag.closed)  # fmt: skip
        gauge("rdd_store_revision", "The newest revision.", lambda: core.cache.revision)


async def open_server(store: Store, options: ServerOptions | None = None) -> ApiServer:
    """Return a started server on a store."""
    options = options or ServerOptions()
    cache = ObjectCache(store)
    await cache.load()
    await quarantine.drop_recreated(store, cache.damaged, options.is_recreated)
    registry = _make_registry(cache)
    lister = CachedLister(registry)
    authorizer = RbacAuthorizer(lister)
    webhooks = WebhookClient(options.endpoints)
    quotas = ResourceQuotas(registry, is_shared=store.is_shared)
    chain = make_chain(
        registry,
        lister,
        authorizer,
        webhooks,
        quotas,
        profile=options.profile,
        others=options.plugins,
        clock=options.clock,
        has_user_admission=options.has_user_admission,
    )
    core = Core(store, cache, registry, admission=chain, clock=options.clock)
    core.rbac = authorizer
    server = ApiServer(core, lister, authorizer, webhooks, options)
    quotas.handle = server.handle
    if options.counts_quotas:
        server.controllers["rdd-resourcequota"] = UsageController(store, quotas).run
    await server.start()
    return server


def _make_registry(cache: ObjectCache) -> ResourceRegistry:
    registry = ResourceRegistry()
    kinds = builtin_kinds(check_rules=_check_rules, check_expression=check_expression)
    for kind in (*kinds, *review_kinds()):
        registry.add_builtin(make_resource(kind, cache))
    return registry


def _check_rules(
    schema: Mapping[str, Any], path: str, faulty: frozenset[int] | None
) -> list[FieldError]:
    # CEL is large, and most servers start without a new CRD.
    from rdd.schema.rules.checks import check_rules

    return check_rules(schema, path, faulty)


def _attributes(request: Request) -> AuthorizationAttributes:
    """Return what to authorise; a list or watch of one name is authorised for that name."""
    attributes = AuthorizationAttributes.of(request)
    if attributes.verb not in ("list", "watch") or attributes.name:
        return attributes
    name = selected_name(request) if "fieldSelector" in request.query else ""
    return replace(attributes, name=name) if name else attributes


def warning_headers(texts: list[str]) -> list[tuple[str, str]]:
    """Return Warning headers: each text once, quoted, within the limits all warnings share."""
    shown: list[str] = []
    warnings.add(shown, texts)
    found: list[tuple[str, str]] = []
    for text in shown:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        found.append(("Warning", f'299 - "{quoted}"'))
    return found
