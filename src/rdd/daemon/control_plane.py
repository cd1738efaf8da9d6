# SPDX-License-Identifier: Apache-2.0
"""The parts of one control plane: how each is started and how it is stopped.

`ControlPlane` has a pair of methods for each part; `rdd.daemon.stages` lists the pairs in
their order and runs them. The first line of each docstring is what the documented order
prints.
"""

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rdd.api.errors import MethodNotAllowed
from rdd.apiserver.admission import exemption, in_process_webhooks
from rdd.apiserver.auth import certificates
from rdd.apiserver.http import responses
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import AnyResponse, Request, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.apiserver.state import codec
from rdd.client import Client, LocalTransport
from rdd.controllers.builtin.manager import RESOURCE_QUOTA, BuiltinControllers
from rdd.daemon import (
    connection,
    daily_backup,
    flag_files,
    preloading,
    quarantine_record,
    readiness,
    renewal,
    upgrades,
)
from rdd.daemon.credentials import ADMIN, Credentials
from rdd.daemon.dashboard import Dashboard
from rdd.daemon.garbage import GarbagePolicy
from rdd.daemon.idle_timeout import IdleTracker
from rdd.daemon.loop_watchdog import LoopWatchdog
from rdd.daemon.managers import composition, program_drain, selection, shutdown_notification
from rdd.daemon.managers.discovery import EMBEDDED, DiscoveryMap
from rdd.daemon.options import ServeOptions
from rdd.daemon.own_objects import is_recreated
from rdd.daemon.profile_enforcement import ProfileEnforcement
from rdd.daemon.service import backups
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import State
from rdd.daemon.service_endpoints import ServiceEndpoints
from rdd.daemon.sharing.parts import Sharing
from rdd.daemon.teardown import attempt, cancel
from rdd.host.directories import make_own_dir
from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.host.processes import descriptor_limit
from rdd.http.hosts import HostRules
from rdd.http.limits import WireLimits
from rdd.instance import Instance
from rdd.profiles.current import CurrentProfile
from rdd.store.contract import Damaged, Store, StoreError, StoreInUse
from rdd.store.options import StoreOptions
from rdd.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from rdd.daemon.managers.elected import ElectedControllers
    from rdd.daemon.managers.embedded import Embedded

log = logging.getLogger("rdd.daemon")

MIN_CONNECTIONS = 64
_HTTP_DRAIN_S = 2.0
Report = Callable[[State, str], Awaitable[None]]
"""Called before each stage with the state of the control plane and the name of the stage."""


class ControlPlane:
    """The parts of a control plane; an attribute exists once its stage has started."""

    store: Store
    tls: ssl.SSLContext
    client: Client
    embedded: "Embedded"
    address: str
    server: ApiServer
    _credentials: Credentials
    _socket: socket.socket
    _directory: DiscoveryMap
    _enforcement: ProfileEnforcement
    _http: HttpServer
    _dashboard: Dashboard
    _builtin: "BuiltinControllers | ElectedControllers"
    _loading: "asyncio.Task[type[Embedded]]"
    _preloading: "asyncio.Task[None] | None" = None
    _following: "asyncio.Task[None]"
    _renewing: "asyncio.Task[None]"
    _backing_up: "asyncio.Task[None]"

    def __init__(self, instance: Instance, options: ServeOptions) -> None:
        """Select the controllers. Raises ServiceError for unknown names."""
        self.instance = instance
        self._options = options
        self._builtin_names, self._names = selection.select_all(options)
        self._sharing = Sharing(instance, options)
        self._profile = CurrentProfile.of(instance)
        self._file_users: Mapping[str, User] = {}
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Set when a part ends that must not."""
        self.idle: IdleTracker | None = None
        self.is_stopping = False
        self._is_ready = False

    @property
    def tokens(self) -> Mapping[str, str]:
        """Context of the kubeconfig → bearer token."""
        return self._credentials.tokens

    def fail(self, error: BaseException) -> None:
        """Report the end of a part without which the control plane must stop."""
        if not self.failure.done() and not self.is_stopping:
            self.failure.set_result(error)

    async def load_controllers(self) -> None:
        """Import the controllers in a thread, while the next stages wait for the disk."""
        instance = self.instance
        for directory in (instance.dir, instance.database.parent, instance.tls_dir):
            make_own_dir(directory)
        with suppress(HostError):  # only machines and tools need it, and report why it is missing
            make_own_dir(instance.short_dir)
        loading = asyncio.to_thread(preloading.load_controllers, self._names, self._options.entries)
        self._loading = asyncio.create_task(loading, name="rdd-load")

    async def cancel_loading(self) -> None:
        """Cancel the import."""
        await cancel(self._loading)

    async def open_store(self) -> None:
        """Open and lock the store."""
        if self._options.store:
            self.store = await self._sharing.open_store(self._names)
            return
        await asyncio.to_thread(upgrades.back_up_before, self.instance, self._options.version)
        options = StoreOptions(backup_dir=self.instance.backup_dir, is_readable=codec.is_readable)
        try:
            self.store = await SqliteStore.open(self.instance.database, options=options)
        except Damaged as error:
            raise ServiceError(
                f"{error} `rdd service reset` keeps it as a backup and starts with an empty store."
                + backups.advice(self.instance)
            ) from error
        except StoreInUse as error:
            raise ServiceError(str(error)) from error
        except (StoreError, OSError) as error:
            raise ServiceError(
                f'cannot use the store "{self.instance.database}": {error}'
            ) from error
        upgrades.record_version(self.instance, self._options.version)

    async def close_store(self) -> None:
        """Close the store."""
        await self.store.close()

    async def remove_stale_kubeconfig(self) -> None:
        """Remove the kubeconfig of a crashed run: its port is no longer served."""
        remove(self.instance.config)

    async def issue_certificates(self) -> None:
        """Issue or renew certificates, bind the port, read or create the tokens."""
        issuer, prepared = self._options.key_issuer, None
        if issuer is not None:
            prepared = await asyncio.to_thread(issuer.result)
        self._credentials = Credentials(self.instance, self._sharing.use_identity, prepared)
        await asyncio.to_thread(self._credentials.ensure)
        self._file_users = flag_files.token_file_users(self._options.token_auth_file)
        self._socket = connection.listen(self.instance, self._options.secure_port)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    async def close_socket(self) -> None:
        """Close the port."""
        self._socket.close()

    async def open_server(self) -> None:
        """Open the API server in this process."""
        version = self._options.version
        if not self._options.has_user_admission:
            log.warning(
                "admission webhooks and policies of users are off in this run "
                "(--without-user-admission); delete or correct them, then restart without the flag"
            )
        self.server = await open_server(
            self.store,
            ServerOptions(
                tokens=self._users(),
                signing_key=self._credentials.signing_key,
                address=self.address,
                version_suffix=f"rdd-{version}" if version else "",
                has_user_admission=self._options.has_user_admission,
                audit=flag_files.open_auditor(self._options.audit),
                counts_quotas=RESOURCE_QUOTA in self._builtin_names,
                is_recreated=is_recreated,
                plugins=self._sharing.plugins(self.store),
                profile=self._profile,
            ),
        )
        quarantine_record.write(self.instance, self.server.core.cache.damaged)

    def _users(self) -> dict[str, User]:
        """Return the users of the static tokens."""
        return {**self._file_users, **self._credentials.users()}

    async def _rotate_tokens(self, request: Request) -> AnyResponse:
        """Replace the tokens of the kubeconfig: old ones are invalid at once, watches end."""
        if request.method != "POST":
            raise MethodNotAllowed()
        rotate = self._credentials.rotate_tokens
        await asyncio.to_thread(self._sharing.change_identity, rotate)
        await self._use_tokens()
        self._sharing.announce_identity()
        return responses.value(
            request, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        )

    async def _use_tokens(self) -> None:
        self.server.replace_tokens(self._users())
        await self._dashboard.end_sessions()
        self._write_kubeconfig()
        log.info("the tokens of the kubeconfig have been replaced")

    async def close_server(self) -> None:
        """Close the API server."""
        await self.server.close()

    async def remove_stale_discovery(self) -> None:
        """Delete discovery and shutdown ConfigMaps of the previous run before clients see them."""
        self.server.readyz.add("rdd-controllers", self._why_not_ready)
        if isinstance(self.store, SqliteStore):
            self.server.readyz.add("rdd-store", self.store.problem)
        self.server.routes.prefixes.append((connection.ROTATE_PATH, self._rotate_tokens))
        self.client = Client(LocalTransport(self.server.handle, _internal))
        self._directory = DiscoveryMap(self.client, is_shared=self.store.is_shared)
        await self._directory.clear()
        await shutdown_notification.delete_stale_notifications(self.client)

    async def enforce_profile(self) -> None:
        """Apply the deployment profile and follow its file."""
        self._enforcement = ProfileEnforcement(
            self._profile,
            self.client,
            self.server.set_ceiling,
            writes_copy=not self.store.is_shared,
        )
        await self._enforcement.start()

    async def unfollow_profile(self) -> None:
        """Stop following the file."""
        await self._enforcement.stop()

    def _why_not_ready(self) -> str:
        if self.is_stopping:
            return "process is shutting down"
        return "" if self._is_ready else "the controllers are starting"

    async def listen(self) -> None:
        """Serve the API on the port."""
        options = self._options
        self.tls = connection.tls_context(self._credentials.serving, options.client_ca_file)
        if options.idle_timeout_s:
            self.idle = IdleTracker(self.server, options.idle_timeout_s, self.instance.lima_home)
        self._http = HttpServer(
            self.idle or self.server,
            http2=options.http2,
            hosts=HostRules(
                certificates.names_of(self._credentials.serving)
                | self._sharing.host_names()
                | set(options.allowed_hosts),
                origins=options.allowed_origins,
            ),
            # Half of the descriptors: files, sockets of engines and machines need the rest.
            limits=WireLimits(connections=max(descriptor_limit() // 2, MIN_CONNECTIONS)),
        )
        await self._http.listen(self._socket, self.tls)
        log.debug("apiserver listening on https://%s", self.address)
        await self._sharing.listen(self._http, options.client_ca_file, self._credentials.serving)

    async def open_dashboard(self) -> None:
        """Serve the dashboard on its own port."""
        ServiceEndpoints(
            self.instance,
            self.server.routes,
            self.client,
            version=self._options.version,
            variables=self._options.environment,
        )
        self._dashboard = Dashboard(
            self.instance,
            self.idle or self.server,
            self.server.routes,
            admin=ADMIN,
            version=self._options.version,
        )
        await self._dashboard.start()

    async def close_dashboard(self) -> None:
        """Disconnect the pages."""
        await self._dashboard.stop()

    async def drain_requests(self) -> None:
        """Stop accepting, end all watches, finish the other requests within 2 s."""
        closing = asyncio.create_task(
            self._http.close(timeout_s=_HTTP_DRAIN_S), name="rdd-http-close"
        )
        await asyncio.sleep(0)
        hubs = list(self.server.core.watchers.values())
        self.server.core.watchers.clear()
        for hub in hubs:
            hub.close()
        await closing

    async def write_kubeconfig(self) -> None:
        """Write the kubeconfig: context `root` (admin) and `user`."""
        self._write_kubeconfig()

    def _write_kubeconfig(self) -> None:
        self._credentials.write_kubeconfig(self.address)

    async def remove_kubeconfig(self) -> None:
        """Remove the kubeconfig."""
        self._credentials.remove_kubeconfig()

    async def preload_schemas(self) -> None:
        """Import in a thread what the first CRD needs; without own controllers when ready."""
        if self._names:
            self._preload()

    def _preload(self) -> None:
        importing = asyncio.to_thread(preloading.load_schemas)
        self._preloading = asyncio.create_task(importing, name="rdd-preload")

    async def cancel_preloading(self) -> None:
        """Cancel the import."""
        if self._preloading is not None:
            await cancel(self._preloading)

    async def create_manager(self) -> None:
        """Create the discovery ConfigMap and the manager of the daemon's own controllers."""
        await self._directory.create()
        embedded = await self._loading
        self.embedded = embedded(
            self.server,
            self.client,
            self._names,
            composition.controller_environment(
                self.instance,
                environment=self._options.environment,
                version=self._options.version,
                has_database=not self._options.store,
                machine=self._options.machine,
            ),
            address=self.address,
            has_open_metrics=self._options.has_open_metrics,
            entries=self._options.entries,
            sharing=self._sharing.controllers(self.server, self.store, self._names),
        )

    async def close_manager(self) -> None:
        """Delete the discovery ConfigMap and release the leases."""
        try:
            await attempt(self._directory.clear)
        finally:
            await self.embedded.stop()

    async def start_builtin_controllers(self) -> None:
        """Start the built-in controllers."""

        def make(client: Client) -> BuiltinControllers:
            return BuiltinControllers(
                client,
                self._builtin_names,
                root_ca=self._credentials.serving.pair.certificate.decode(),
                on_failure=self.fail,
            )

        if self.store.is_shared and self._builtin_names:
            self._builtin = self._sharing.elected(self.client, make, self.fail)
        else:
            self._builtin = make(self.client)
        await self._builtin.start()

    async def stop_builtin_controllers(self) -> None:
        """Stop the built-in controllers."""
        await self._builtin.stop()

    async def start_controllers(self) -> None:
        """Start the daemon's own controllers and register them in the ConfigMap."""
        await self.embedded.start(self.fail)
        await self._directory.register(EMBEDDED, self.embedded.registration.text())

    async def drain_controllers(self) -> None:
        """Wait for shutdown notifications, then drain own controllers and external programs."""
        began = time.monotonic()
        await attempt(partial(shutdown_notification.notify_shutdown, self.client))
        await self.embedded.manager.drain()
        left_s = max(composition.DRAIN_S - (time.monotonic() - began), 0)
        await attempt(partial(program_drain.wait_for_programs, self.client, timeout_s=left_s))

    async def follow_programs(self) -> None:
        """Route passthrough requests to external programs as they register."""
        from rdd.daemon.managers.passthrough_backends import Backends

        def on_end(task: "asyncio.Task[None]") -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.fail(error)

        self._following = asyncio.create_task(
            Backends(self.client, self.server.passthroughs).run(), name="rdd-passthrough-backends"
        )
        self._following.add_done_callback(on_end)

    async def unfollow_programs(self) -> None:
        """Remove the routes."""
        await cancel(self._following)

    async def wait_for_requirements(self) -> None:
        """Wait until CRDs are established and admission webhooks respond."""
        await readiness.wait(self.client, self.embedded.requirements)

    async def back_up_daily(self) -> None:
        """Copy the database once a day from now on."""
        self._backing_up = asyncio.create_task(
            daily_backup.run(self.instance, self.store, has_database=not self._options.store),
            name="rdd-backup",
        )

    async def cancel_backups(self) -> None:
        """Stop copying."""
        await cancel(self._backing_up)

    async def keep_certificates_renewed(self) -> None:
        """Check the certificates twice a day from now on."""
        self._renewing = asyncio.create_task(
            renewal.keep_renewed(
                self._credentials.serving, self._credentials.renewed, self._use_certificate
            ),
            name="rdd-certificates",
        )
        self._sharing.follow_identity(self.client, self.store, self._use_identity)

    def _use_certificate(self, issued: certificates.Issued) -> None:
        """Use a renewed certificate for new connections, and publish its authority."""
        self.tls.load_cert_chain(issued.certificate_path, issued.key_path)
        self._write_kubeconfig()
        self._sharing.announce_identity()

    async def _use_identity(self) -> None:
        """Use what another server has stored in --identity-dir."""
        credentials = self._credentials
        pair, tokens = credentials.serving.pair, credentials.tokens
        await asyncio.to_thread(credentials.ensure)
        if credentials.serving.pair != pair:
            self._use_certificate(credentials.serving)
        if credentials.tokens != tokens:
            await self._use_tokens()

    async def cancel_renewal(self) -> None:
        """Stop checking."""
        await self._sharing.unfollow_identity()
        await cancel(self._renewing)

    async def announce_ready(self) -> None:
        """Report ready on `/readyz` and in the annotation of the ConfigMap."""
        self._garbage = GarbagePolicy(lambda: self._http.connections)
        self._garbage.start()
        self._is_ready = True
        await self._directory.set_ready(ready=True)
        if not self._names:  # only a user creates CRDs, so the start does not wait for them
            self._preload()
        self._watchdog = LoopWatchdog(self.server.metrics)
        if threading.current_thread() is threading.main_thread():
            self._watchdog.start()

    async def announce_stopping(self) -> None:
        """Remove the annotation; `/readyz` fails from now on."""
        self._garbage.stop()
        self._watchdog.stop()
        await attempt(partial(self._directory.set_ready, ready=False))


def _internal(method: str, path: str, /, **members: Any) -> Request:
    """Return a request of this process; in an admission handler, a nested one."""
    return Request(
        method, path, user=exemption.DAEMON, depth=in_process_webhooks.depth.get(), **members
    )
