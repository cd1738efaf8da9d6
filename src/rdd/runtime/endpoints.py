# SPDX-License-Identifier: Apache-2.0
"""Health and metrics over HTTP, on sockets that are already bound.

/healthz    the process is alive; for everyone on this machine
/readyz     all controllers work, otherwise 500; for everyone, so the reason is in the log only
/metrics    Prometheus text format; for tokens that RBAC grants it (`metrics_access`), or open

The ports are on the loopback interface, where every local user can connect: connections are few
and short-lived, and names of other hosts are misdirected (see `rdd.http.hosts`).
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from rdd.runtime.metrics import Metrics
from rdd.runtime.metrics_access import MetricsAccess

if TYPE_CHECKING:
    from rdd.http.exchange import Exchange
    from rdd.http.responses import Response
    from rdd.http.server import Server

log = logging.getLogger("rdd.runtime")

MAX_CONNECTIONS = 32
HEAD_S = 10.0
IDLE_S = 30.0

_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_REFUSALS = {
    401: "401 a bearer token is required\n",
    403: "403 the user may not get /metrics\n",
    503: "503 the token could not be checked\n",
}


class ManagerEndpoints:
    """The HTTP endpoints of a manager; `problem` returns why it is not ready, or nothing."""

    def __init__(
        self, metrics: Metrics, problem: Callable[[], str], access: MetricsAccess | None = None
    ) -> None:
        """Without `access` everyone may read the metrics."""
        self._metrics = metrics
        self._problem = problem
        self._access = access
        self._last_problem = ""
        self._servers: list[Server] = []

    async def start(
        self, *, health: socket.socket | None = None, metrics: socket.socket | None = None
    ) -> None:
        """Serve on the given sockets."""
        if health is not None:
            await self._serve(health, {"/healthz": self._healthz, "/readyz": self._readyz})
        if metrics is not None:
            await self._serve(metrics, {"/metrics": self._show})

    async def _serve(
        self, sock: socket.socket, routes: "dict[str, Callable[[str], Awaitable[Response]]]"
    ) -> None:
        from rdd.http.hosts import MISDIRECTED, HostRules
        from rdd.http.limits import WireLimits
        from rdd.http.responses import Response
        from rdd.http.server import Server

        hosts = HostRules()

        async def handle(exchange: "Exchange") -> None:
            headers = exchange.headers
            route = routes.get(exchange.path)
            if not hosts.accepts(headers.get("Host") if "Host" in headers else None):
                response = Response.text("421 misdirected request\n", status=MISDIRECTED)
            elif route is None:
                response = Response.text("404 page not found\n", status=404)
            elif exchange.method not in ("GET", "HEAD"):
                allow = [("Allow", "GET, HEAD")]
                response = Response.text("405 method not allowed\n", status=405, headers=allow)
            else:
                response = await route(headers.get("Authorization"))
            response.send(exchange)
            await exchange.drain()

        limits = WireLimits(
            head_bytes=16 * 1024, head_s=HEAD_S, idle_s=IDLE_S, connections=MAX_CONNECTIONS
        )
        server = Server(handle, limits=limits, http2=False)
        self._servers.append(server)
        await server.listen(sock)

    async def _healthz(self, _: str) -> "Response":
        from rdd.http.responses import Response

        return Response.text("ok")

    async def _readyz(self, _: str) -> "Response":
        from rdd.http.responses import Response

        problem = self._problem()
        if problem != self._last_problem:
            self._last_problem = problem
            log.info("readiness: %s", problem or "ready")
        if problem:
            return Response.text("not ready\n", status=500)
        return Response.text("ok")

    async def _show(self, authorization: str) -> "Response":
        from rdd.http.responses import Response

        status = 200 if self._access is None else await self._access.status(authorization)
        if status != 200:
            challenge = [("WWW-Authenticate", "Bearer")] if status == 401 else []
            return Response.text(_REFUSALS[status], status=status, headers=challenge)
        return Response(200, self._metrics.render().encode(), content_type=_METRICS)

    async def stop(self) -> None:
        for server in self._servers:
            await server.close(timeout_s=1.0)
        self._servers.clear()
