# SPDX-License-Identifier: Apache-2.0
"""Health and metrics over HTTP, on sockets that are already bound.

/healthz    the process is alive
/readyz     all controllers work; otherwise 500 with the reason
/metrics    Prometheus text format
"""

import socket
from collections.abc import Callable
from typing import Any

from rdd.runtime.metrics import Metrics


class ManagerEndpoints:
    """The HTTP endpoints of a manager; `problem` returns why it is not ready, or nothing."""

    def __init__(self, metrics: Metrics, problem: Callable[[], str]) -> None:
        self._metrics = metrics
        self._problem = problem
        self._runners: list[Any] = []

    async def start(
        self, *, health: socket.socket | None = None, metrics: socket.socket | None = None
    ) -> None:
        """Serve on the given sockets."""
        from aiohttp import web

        async def healthz(request: web.Request) -> web.Response:
            return web.Response(text="ok")

        async def readyz(request: web.Request) -> web.Response:
            problem = self._problem()
            if problem:
                return web.Response(status=500, text=f"not ready: {problem}\n")
            return web.Response(text="ok")

        async def show(request: web.Request) -> web.Response:
            return web.Response(
                body=self._metrics.render().encode(),
                headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
            )

        for sock, routes in (
            (health, {"/healthz": healthz, "/readyz": readyz}),
            (metrics, {"/metrics": show}),
        ):
            if sock is None:
                continue
            app = web.Application()
            for path, handler in routes.items():
                app.router.add_get(path, handler)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
            self._runners.append(runner)
            await runner.setup()
            await web.SockSite(runner, sock).start()

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()
