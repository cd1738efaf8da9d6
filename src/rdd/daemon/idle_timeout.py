# SPDX-License-Identifier: Apache-2.0
"""The idle timeout of the daemon (`--idle-timeout`).

The tracker wraps the API of the port and counts requests; those of the daemon's own
controllers bypass it. Open watches and passthroughs count as use, and so do virtual machines:
the daemon does not stop while a host agent runs. There is no periodic tick, only one timer for
the end of the timeout.
"""

import asyncio
from pathlib import Path

from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.http.listener import RequestApi
from rdd.apiserver.http.request import AnyResponse, Hijack, Request, ResponseWriter, Stream
from rdd.daemon.service.machines import is_any_vm_running
from rdd.http.exchange import Exchange

_HEALTH = ("/healthz", "/livez", "/readyz", "/metrics")


class IdleTracker:
    """A RequestApi that records when it was last used."""

    def __init__(self, api: RequestApi, timeout_s: float, lima_home: Path) -> None:
        self._api = api
        self._timeout_s = timeout_s
        self._lima_home = lima_home
        self._loop = asyncio.get_running_loop()
        self._busy = 0
        self._last = self._loop.time()

    @property
    def metrics(self) -> ServerMetrics:
        return self._api.metrics

    async def handle(self, request: Request) -> AnyResponse:
        """Handle a request; health checks do not count as use."""
        if request.path.startswith(_HEALTH):
            return await self._api.handle(request)
        self._busy += 1
        try:
            answer = await self._api.handle(request)
        finally:
            self._done()
        if isinstance(answer, Stream):
            produce = answer.produce

            async def counted(writer: ResponseWriter) -> None:
                self._busy += 1
                try:
                    await produce(writer)
                finally:
                    self._done()

            answer.produce = counted
        elif isinstance(answer, Hijack):
            serve = answer.serve

            async def served(exchange: Exchange) -> None:
                self._busy += 1
                try:
                    await serve(exchange)
                finally:
                    self._done()

            answer.serve = served
        return answer

    def _done(self) -> None:
        self._busy -= 1
        self._last = self._loop.time()

    async def expired(self) -> None:
        """Return when the timeout has passed without a request and no virtual machine runs."""
        while True:
            left = self._last + self._timeout_s - self._loop.time()
            if self._busy:
                left = self._timeout_s
            elif left <= 0:
                if not await asyncio.to_thread(is_any_vm_running, self._lima_home):
                    return
                left = self._timeout_s
            await asyncio.sleep(left)
