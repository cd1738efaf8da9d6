# SPDX-License-Identifier: Apache-2.0
"""Controllers in a process of their own, beside the daemon.

Such a program serves the control plane that runs now and never starts one. It checks in this
order, and a failed check ends it with one line and exit code 1:

    the daemon of the instance is alive, of the same version, and ready
    the kubeconfig of the instance belongs to it
    no other process owns the controllers; those of the daemon are skipped
    the controllers start, fenced by their leases
    the program is registered in the discovery ConfigMap

It runs until a stop signal or the end of the control plane: the daemon announces a shutdown
in the ConfigMap, the kernel reports a crash of its process, and the heartbeat fails if the
server does not respond. In each case the program drains and releases its leases.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from rdd.api import names
from rdd.api.errors import ApiError
from rdd.apiserver.auth import certificates
from rdd.apiserver.auth.certificates import Issued
from rdd.client import Client, Unreachable, kubeconfig
from rdd.client.https import HttpsTransport
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers import catalog
from rdd.controllers.catalog import ControllerEntry
from rdd.daemon import loop, renewal
from rdd.daemon.managers import composition, passthrough_backends, webhook_tls
from rdd.daemon.managers.discovery import DiscoveryMap
from rdd.daemon.managers.registration import Registration
from rdd.daemon.service import record, waits
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.probe import NotReady, Probe
from rdd.daemon.service.record import DaemonRecord, State
from rdd.daemon.signals import StopSignal
from rdd.host.exits import wait_ended
from rdd.host.files import read_text
from rdd.host.sockets import listen_on_loopback
from rdd.instance import Instance
from rdd.runtime import (
    Controller,
    HeldByOther,
    HttpPassthrough,
    HttpsHost,
    Manager,
    ManagerOptions,
    NotEstablished,
    Ownership,
    OwnershipError,
)
from rdd.runtime.ownership import LEASE_S, START_S
from rdd.runtime.webhooks import remove_configurations

log = logging.getLogger("rdd.daemon")

RESPONSE_S = 5.0
"""Timeout of the first response of a daemon whose record is ready."""
_TEARDOWN_S = 5.0
_PAUSE_S = 0.1
_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class ExternalOptions:
    """The options of a program."""

    group: str
    """The key in the discovery ConfigMap."""
    names: Sequence[str]
    health_port: int
    metrics_port: int
    version: str
    lease_s: int = LEASE_S
    """After this time without a renewal, another process may take over."""
    has_open_metrics: bool = False
    """Whether /metrics needs no token."""
    environment: Mapping[str, str] = field(default_factory=dict)
    entries: Sequence[ControllerEntry] = catalog.ENTRIES


def serve_external(instance: Instance, options: ExternalOptions) -> None:
    """Run the controllers of a program until it stops. Raises ServiceError or HostError."""
    daemon = _ready_daemon(instance, options.version)
    _check_connection(instance, options.version)
    try:
        with loop.runner() as runner:
            runner.run(_External(instance, options, daemon).run())
    except HeldByOther as held:
        raise ServiceError(
            f'{held}: only one process at a time can be the manager "{options.group}"'
        ) from held
    except (
        OwnershipError,
        NotEstablished,
        ApiError,
        Unreachable,
        kubeconfig.KubeconfigError,  # the daemon stops
    ) as error:
        raise ServiceError(str(error)) from error


def _ready_daemon(instance: Instance, version: str) -> DaemonRecord:
    """Wait until the daemon of the instance is ready and return it. Raises ServiceError."""
    title = _title(instance)
    for _ in waits.Deadline(START_S).ticks(f"{title} is not ready"):
        daemon = record.read(instance)
        if daemon is None:
            raise ServiceError(f"{title} is not running; start it with `rdd service start`")
        if daemon.state == State.STOPPING:
            raise ServiceError(f"{title} is stopping")
        waits.check_version(instance, daemon, version)
        if daemon.state == State.READY:
            return daemon
    raise AssertionError("unreachable")


def _check_connection(instance: Instance, version: str) -> None:
    """Check that the kubeconfig of the instance belongs to its daemon. Raises ServiceError."""
    title, path = _title(instance), instance.config
    try:
        connection = kubeconfig.load(path, context=kubeconfig.ADMIN_CONTEXT)
    except kubeconfig.KubeconfigError as error:
        raise ServiceError(f"cannot connect to {title}: {error}") from error
    authority = read_text(instance.tls_dir / f"{certificates.SERVING}.crt")
    if connection.authority != authority:
        raise ServiceError(
            f'cannot connect to {title}: "{path}" is the kubeconfig of another server '
            f"({connection.server})"
        )
    reason = ""
    deadline = waits.Deadline(RESPONSE_S)
    while deadline.left_s > 0:
        try:
            with Probe(instance, timeout_s=RESPONSE_S) as probe:
                probe.check(version=version)
            return
        except NotReady as error:
            reason = str(error)
            if error.status == _UNAUTHORIZED:
                break  # the token is of another run: no retry helps
            time.sleep(_PAUSE_S)
    raise ServiceError(f"{title} does not respond at {connection.server}: {reason}")


def _title(instance: Instance) -> str:
    return f'"{instance.name}" control plane'


class _External:
    """The asynchronous part: signals and the manager."""

    def __init__(self, instance: Instance, options: ExternalOptions, daemon: DaemonRecord) -> None:
        self._instance = instance
        self._options = options
        self._daemon = daemon
        self._stop = StopSignal()

    async def run(self) -> None:
        self._stop.install_handlers()
        config = self._instance.config
        transport = HttpsTransport.from_file(config, context=kubeconfig.ADMIN_CONTEXT)
        try:
            async with Client(transport) as client:
                await self._serve(client)
        except asyncio.CancelledError:
            if not self._stop.is_set:
                raise
            log.info("stopped before the controllers were ready")

    async def _serve(self, client: Client) -> None:
        options, group = self._options, self._options.group
        directory = DiscoveryMap(client)
        present = await client.get(
            CONFIG_MAPS, names.DISCOVERY_CONFIG_MAP, namespace=names.SYSTEM_NAMESPACE
        )
        ownership = Ownership(
            client,
            group,
            lease_s=options.lease_s,
            renew_s=options.lease_s / 3,
            start_s=START_S + options.lease_s,
        )
        controller_names = await self._unowned(ownership)
        if not controller_names:
            log.info("nothing to start: the daemon runs %s", ", ".join(options.names))
            return
        async with contextlib.AsyncExitStack() as stack:
            given = composition.controller_environment(
                self._instance, environment=options.environment, version=options.version
            )
            controllers = catalog.make_controllers(controller_names, given, options.entries)
            host = await self._host(controllers, stack)
            endpoints = self._endpoints(controllers, stack)
            health = stack.enter_context(listen_on_loopback(options.health_port))
            metrics = stack.enter_context(listen_on_loopback(options.metrics_port))
            manager = Manager(
                group,
                client,
                controllers,
                ownership=ownership,
                host=host,
                passthrough=endpoints,
                options=ManagerOptions(
                    if_held="fail",
                    drain_s=composition.DRAIN_S,
                    health_socket=health,
                    metrics_socket=metrics,
                    has_open_metrics=options.has_open_metrics,
                ),
            )
            await manager.start()
            entry = Registration(
                health.getsockname()[1],
                metrics.getsockname()[1],
                controllers=manager.running,
                passthroughs=manager.passthroughs,
                passthrough_endpoint=endpoints.url if endpoints else "",
            ).text()
            try:
                if endpoints is not None:
                    await passthrough_backends.publish(
                        client, group, url=endpoints.url, secret=endpoints.secret
                    )
                await directory.register(group, entry, create=False)
                self._stop.end_startup()
                log.info("%s: running %s", group, ", ".join(manager.running))
                shutdown = _wait_for_shutdown(client, group, uid=present["metadata"]["uid"])
                await self._wait_for_end(manager, ownership, shutdown)
            finally:
                await manager.drain()
                await _attempt(_withdraw(client, host))
                await _attempt(directory.deregister(group, entry))
                if endpoints is not None:
                    withdrawn = passthrough_backends.withdraw(
                        client, group, secret=endpoints.secret
                    )
                    await _attempt(withdrawn)
                await manager.stop()  # deletes the heartbeat, which the daemon waits for
        log.info("%s: stopped", group)

    async def _unowned(self, ownership: Ownership) -> list[str]:
        """Return the controllers without an owner. Raises ServiceError for those of a program."""
        free = []
        for name in self._options.names:
            held = await ownership.find_holder(name)
            if held is None:
                free.append(name)
            elif held.is_embedded:
                log.info("%s; skipped", held)
            else:
                raise ServiceError(
                    f'{held}: only one process at a time can be the manager "{self._options.group}"'
                )
        return free

    async def _host(
        self, controllers: Sequence[Controller], stack: contextlib.AsyncExitStack
    ) -> HttpsHost | None:
        """Return the server of the webhooks; None without webhooks."""
        named = [c.name for c in controllers if c.webhooks]
        if not named:
            return None
        directory, group = self._instance.tls_dir, self._options.group
        tls = await asyncio.to_thread(webhook_tls.ensure, directory, group, named)

        def renewed(issued: Issued) -> None:
            tls.context.load_cert_chain(issued.certificate_path, issued.key_path)

        renewing = asyncio.create_task(
            renewal.keep_renewed(
                tls.issued, lambda: webhook_tls.issue(directory, group, named)[0], renewed
            ),
            name="rdd-certificates",
        )
        stack.callback(renewing.cancel)
        sock = stack.enter_context(listen_on_loopback(self._instance.ports.webhook))
        return HttpsHost(sock, tls.context, ca_bundle=tls.ca_bundle)

    def _endpoints(
        self, controllers: Sequence[Controller], stack: contextlib.AsyncExitStack
    ) -> HttpPassthrough | None:
        """Return the server of passthrough endpoints; None without endpoints."""
        if not any(c.passthroughs for c in controllers):
            return None
        sock = stack.enter_context(listen_on_loopback(self._instance.ports.passthrough))
        return HttpPassthrough(sock, secret=secrets.token_urlsafe(32))

    async def _wait_for_end(
        self, manager: Manager, ownership: Ownership, shutdown: Coroutine[Any, Any, str]
    ) -> None:
        """Return at an orderly end. Raises ServiceError at a failure."""
        assert manager.failed is not None
        ends: dict[asyncio.Future[Any], str] = {
            asyncio.create_task(self._stop.wait(), name="rdd-stop"): "",
            asyncio.create_task(shutdown, name="rdd-shutdown"): "",
            asyncio.create_task(
                wait_ended(self._daemon.process), name="rdd-daemon"
            ): "the control plane has ended",
            asyncio.create_task(
                ownership.server_lost.wait(), name="rdd-server-lost"
            ): "the control plane does not respond",
            asyncio.create_task(ownership.taken_over.wait(), name="rdd-taken-over"): "taken over",
            asyncio.ensure_future(asyncio.shield(manager.failed)): "failed",
        }
        done, pending = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        first = done.pop()
        reason = ends[first] or str(first.result())
        if reason == "failed":
            raise ServiceError(f"a controller failed: {first.result()}")
        if reason == "taken over":
            raise ServiceError(
                f'another process has become the manager "{self._options.group}" while this one '
                "could not renew its leases"
            )
        if not self._stop.is_set:
            log.info("%s: stopping", reason)


async def _wait_for_shutdown(client: Client, group: str, *, uid: str) -> str:
    """Wait for the end of the control plane in the discovery ConfigMap; return the reason."""
    is_first = True
    events = client.list_and_watch(
        CONFIG_MAPS,
        namespace=names.SYSTEM_NAMESPACE,
        field_selector=f"metadata.name={names.DISCOVERY_CONFIG_MAP}",
    )
    async with aclosing(events):
        async for event in events:
            if event.type in ("ADDED", "MODIFIED"):
                is_first = False
                metadata = event.object["metadata"]
                if metadata["uid"] != uid:
                    return "the control plane was restarted"
                if names.READY not in (metadata.get("annotations") or {}):
                    return "the control plane is stopping"
                if group not in (event.object.get("data") or {}):
                    return "our entry in the discovery ConfigMap was removed"
            elif event.type == "DELETED" or (event.type == "SYNCED" and is_first):
                return "the control plane has deregistered"
    return "the control plane does not respond"


async def _withdraw(client: Client, host: HttpsHost | None) -> None:
    """Delete the webhook configurations: afterwards no write depends on this program."""
    if host is not None:
        own = f"{host.url_prefix}/"
        await remove_configurations(
            client, lambda found: str(found.get("url") or "").startswith(own)
        )


async def _attempt(step: Awaitable[None]) -> None:
    """Run a step of the teardown; failures are ignored, the control plane may have ended."""
    try:
        async with asyncio.timeout(_TEARDOWN_S):
            await step
    except (ApiError, Unreachable, TimeoutError) as error:
        log.debug("during shutdown: %s", error or "timeout")
