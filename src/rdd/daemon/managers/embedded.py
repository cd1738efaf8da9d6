# SPDX-License-Identifier: Apache-2.0
"""The controllers that run inside the daemon: one manager named `embedded`.

It calls the API server without a socket, the server calls its admission handlers the same way,
and its ownership is that of the daemon's lock. At start it deletes webhook configurations of
earlier runs whose controllers do not run now: no handler would respond, and every write they
match would fail.
"""

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.errors import ApiError
from rdd.api.types import Object
from rdd.apiserver.server import ApiServer
from rdd.client import Client, Unreachable
from rdd.controllers import catalog
from rdd.controllers.catalog import ControllerEntry
from rdd.controllers.environment import ControllerEnvironment
from rdd.daemon.managers.composition import DRAIN_S
from rdd.daemon.managers.discovery import EMBEDDED
from rdd.daemon.managers.registration import Registration
from rdd.daemon.readiness import Requirements
from rdd.daemon.service.errors import ServiceError
from rdd.host.sockets import listen_on_loopback
from rdd.runtime import (
    InProcessHost,
    InProcessPassthrough,
    Manager,
    ManagerOptions,
    NotEstablished,
    Ownership,
    OwnershipError,
)
from rdd.runtime.webhooks import remove_configurations

if TYPE_CHECKING:
    from rdd.daemon.managers.shared_store import SharedStore

log = logging.getLogger("rdd.daemon")


class Embedded:
    """The daemon's manager and its sockets."""

    def __init__(
        self,
        server: ApiServer,
        client: Client,
        names: Sequence[str],
        env: ControllerEnvironment,
        *,
        address: str,
        has_open_metrics: bool = False,
        entries: Sequence[ControllerEntry] = catalog.ENTRIES,
        sharing: "SharedStore | None" = None,
    ) -> None:
        """Import and create the controllers; `sharing` is set on a store of several servers."""
        ports = env.instance.ports
        with contextlib.ExitStack() as stack:
            health = stack.enter_context(listen_on_loopback(ports.embedded_health))
            metrics = stack.enter_context(listen_on_loopback(ports.embedded_metrics))
            self._controllers = catalog.make_controllers(names, env, entries)
            self._sharing = sharing
            self._host = InProcessHost(server.endpoints, address=address)
            ownership = Ownership(client, EMBEDDED, is_embedded=True)
            if sharing is not None:
                self._host = sharing.host(server.endpoints)
                ownership = sharing.ownership(client)
                client = sharing.client(client)
            self.manager = Manager(
                EMBEDDED,
                client,
                self._controllers,
                ownership=ownership,
                host=self._host,
                passthrough=InProcessPassthrough(server.passthroughs),
                options=ManagerOptions(
                    drain_s=DRAIN_S,
                    health_socket=health,
                    metrics_socket=metrics,
                    has_open_metrics=has_open_metrics,
                ),
            )
            self._sockets = stack.pop_all()
        self._client = client
        self._address = address
        self._ports = health.getsockname()[1], metrics.getsockname()[1]

    async def start(self, on_failure: Callable[[BaseException], None]) -> None:
        """Start all controllers. Raises ServiceError.

        `on_failure` is called when a controller ends later without a stop.
        """
        try:
            await self.manager.start()
            await self._remove_stale_webhooks()
        except Exception as error:
            known = isinstance(error, OwnershipError | NotEstablished | ApiError | Unreachable)
            why = str(error) if known else f"{type(error).__name__}: {error}"
            raise ServiceError(f"the controllers could not be started: {why}") from error
        failed = self.manager.failed
        assert failed is not None
        failed.add_done_callback(
            lambda done: None if done.cancelled() else on_failure(done.result())
        )

    async def stop(self) -> None:
        """Release the leases and close the sockets."""
        await self.manager.stop()
        self._sockets.close()

    @property
    def requirements(self) -> Requirements:
        """Return the readiness conditions of the running controllers."""
        running = [c for c in self._controllers if c.name in self.manager.running]
        webhooks = self.manager.webhooks
        return Requirements(
            definitions=[d["metadata"]["name"] for c in running for d in c.definitions],
            mutating_webhooks=[w.name for w in webhooks if w.type == "mutating"],
            validating_webhooks=[w.name for w in webhooks if w.type == "validating"],
        )

    @property
    def registration(self) -> Registration:
        """Return the entry for the discovery ConfigMap."""
        health, metrics = self._ports
        return Registration(
            health,
            metrics,
            controllers=self.manager.running,
            passthroughs=self.manager.passthroughs,
            passthrough_endpoint=f"https://{self._address}{names.PASSTHROUGH_PREFIX}",
        )

    async def _remove_stale_webhooks(self) -> None:
        if self._sharing is not None:
            return  # they may be those of another server
        own = f"{self._host.url_prefix}/"

        def is_stale(client_config: Object) -> bool:
            # Only an in-process webhook needs no authority.
            url = str(client_config.get("url") or "")
            return bool(url) and not client_config.get("caBundle") and not url.startswith(own)

        removed = await remove_configurations(self._client, is_stale)
        if removed:
            log.info("removed stale webhooks: %s", ", ".join(removed))
