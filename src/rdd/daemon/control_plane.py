# SPDX-License-Identifier: Apache-2.0
"""The parts of one control plane: how each is started and how it is stopped.

`ControlPlane` has a pair of methods for each part; `rdd.daemon.stages` lists the pairs in
their order and runs them. The first line of each docstring is what the documented order
prints.
"""

import asyncio
import importlib
import logging
import socket
import ssl
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from rdd.api.errors import ApiError
from rdd.apiserver.admission import in_process_webhooks
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import Request, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.client import Client, LocalTransport, kubeconfig
from rdd.controllers import catalog
from rdd.controllers.builtin.manager import BuiltinControllers, UnknownControllers, select
from rdd.controllers.catalog import ControllerEntry
from rdd.daemon import readiness, renewal
from rdd.daemon.idle_timeout import IdleTracker
from rdd.daemon.managers import composition, program_drain, selection
from rdd.daemon.managers.discovery import EMBEDDED, DiscoveryMap
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import State
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import remove, write_atomically
from rdd.host.sockets import listen_on_loopback
from rdd.instance import Instance
from rdd.store.contract import Damaged, StoreError, StoreInUse
from rdd.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from rdd.daemon.managers.embedded import Embedded

log = logging.getLogger("rdd.daemon")

ADMIN = User(kubeconfig.ADMIN_USER, ("system:masters",))
READER = User(kubeconfig.READER_USER)
MANAGER = User("system:kube-controller-manager", ("system:masters", "system:authenticated"))

_HTTP_DRAIN_S = 2.0
# Modules that only the first CRD needs: loading them takes 40 ms.
_FIRST_CRD = (
    "schema.crd.validation",
    "schema.validate",
    "schema.rules.checks",
    "schema.rules.evaluation",
    "api.apply",
)

Report = Callable[[State, str], Awaitable[None]]
"""Called before each stage with the state of the control plane and the name of the stage."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of a control plane."""

    secure_port: int = 6443
    """Port on 127.0.0.1; another free one is used if it is taken. 0: any."""
    controllers: str = "*"
    """Selection of the project's own controllers."""
    builtin_controllers: str = "*"
    """Selection of the built-in controllers."""
    client_ca_file: str = ""
    """Authorities whose client certificates identify users (common name, organisations)."""
    version: str = ""
    """Version of rdd, shown behind the Kubernetes version."""
    idle_timeout_s: float = 0
    """Stop after this time without a request; 0: never."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The environment variables of the process, for the controllers."""
    entries: Sequence[ControllerEntry] = catalog.ENTRIES
    """The controllers to select from."""


class ControlPlane:
    """The parts of a control plane; an attribute exists once its stage has started."""

    store: SqliteStore
    tls: ssl.SSLContext
    client: Client
    embedded: "Embedded"
    address: str
    server: ApiServer
    tokens: dict[str, str]
    """Context name → bearer token."""
    _serving: certificates.Issued
    _signing_key: bytes
    _socket: socket.socket
    _directory: DiscoveryMap
    _http: HttpServer
    _builtin: BuiltinControllers
    _loading: "asyncio.Task[type[Embedded]]"
    _preloading: "asyncio.Task[None]"
    _following: "asyncio.Task[None]"
    _renewing: "asyncio.Task[None]"

    def __init__(self, instance: Instance, options: ServeOptions) -> None:
        """Select the controllers. Raises ServiceError for unknown names."""
        self.instance = instance
        self._options = options
        self._builtin_names, self._names = _selected(options)
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Set when a part ends that must not."""
        self.idle: IdleTracker | None = None
        self.is_stopping = False
        self._is_ready = False

    def fail(self, error: BaseException) -> None:
        """Report the end of a part without which the control plane must stop."""
        if not self.failure.done() and not self.is_stopping:
            self.failure.set_result(error)

    async def load_controllers(self) -> None:
        """Import the controllers in a thread, while the next stages wait for the disk."""
        for directory in (
            self.instance.dir,
            self.instance.database.parent,
            self.instance.tls_dir,
        ):
            make_private_dir(directory)
        loading = asyncio.to_thread(_load, self._names, self._options.entries)
        self._loading = asyncio.create_task(loading, name="rdd-load")

    async def cancel_loading(self) -> None:
        """Cancel the import."""
        await _cancel(self._loading)

    async def open_store(self) -> None:
        """Open and lock the store."""
        try:
            self.store = await SqliteStore.open(self.instance.database)
        except Damaged as error:
            raise ServiceError(
                f"{error} `rdd service reset` keeps it as a backup and starts with an empty store."
            ) from error
        except StoreInUse as error:
            raise ServiceError(str(error)) from error
        except (StoreError, OSError) as error:
            raise ServiceError(
                f'cannot use the store "{self.instance.database}": {error}'
            ) from error

    async def close_store(self) -> None:
        """Close the store."""
        await self.store.close()

    async def remove_stale_kubeconfig(self) -> None:
        """Remove the kubeconfig of a crashed run: its port is no longer served."""
        remove(self.instance.config)

    async def issue_certificates(self) -> None:
        """Issue or renew certificates, bind the port, create the tokens."""
        self._serving = certificates.ensure_serving(self.instance.tls_dir)
        self._signing_key = certificates.ensure_signing_key(self.instance.tls_dir)
        self._socket = listen_on_loopback(self._options.secure_port)
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.tokens = {
            kubeconfig.ADMIN_CONTEXT: str(uuid.uuid4()),
            kubeconfig.READER_CONTEXT: str(uuid.uuid4()),
        }

    async def close_socket(self) -> None:
        """Close the port."""
        self._socket.close()

    async def open_server(self) -> None:
        """Open the API server in this process."""
        version = self._options.version
        self.server = await open_server(
            self.store,
            ServerOptions(
                tokens={
                    self.tokens[kubeconfig.ADMIN_CONTEXT]: ADMIN,
                    self.tokens[kubeconfig.READER_CONTEXT]: READER,
                },
                signing_key=self._signing_key,
                address=self.address,
                version_suffix=f"rdd-{version}" if version else "",
            ),
        )

    async def close_server(self) -> None:
        """Close the API server."""
        await self.server.close()

    async def remove_stale_discovery(self) -> None:
        """Delete the discovery ConfigMap of the previous run, before a client can read it."""
        self.server.readyz.add("rdd-controllers", self._why_not_ready)
        self.client = Client(LocalTransport(self.server.handle, _internal))
        self._directory = DiscoveryMap(self.client)
        await self._directory.clear()

    def _why_not_ready(self) -> str:
        if self.is_stopping:
            return "process is shutting down"
        return "" if self._is_ready else "the controllers are starting"

    async def listen(self) -> None:
        """Serve the API on the port."""
        options = self._options
        self.tls = _tls(self._serving, options.client_ca_file)
        if options.idle_timeout_s:
            self.idle = IdleTracker(self.server, options.idle_timeout_s, self.instance.lima_home)
        self._http = HttpServer(self.idle or self.server)
        await self._http.listen(self._socket, self.tls)

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
        text = kubeconfig.render(
            f"https://{self.address}",
            authority=self._serving.pair.certificate.decode(),
            admin_token=self.tokens[kubeconfig.ADMIN_CONTEXT],
            reader_token=self.tokens[kubeconfig.READER_CONTEXT],
        )
        write_atomically(self.instance.config, text, durable=False)

    async def remove_kubeconfig(self) -> None:
        """Remove the kubeconfig."""
        remove(self.instance.config)

    async def preload_schemas(self) -> None:
        """Import in a thread what the first CRD needs."""
        self._preloading = asyncio.create_task(
            asyncio.to_thread(_import, _FIRST_CRD), name="rdd-preload"
        )

    async def cancel_preloading(self) -> None:
        """Cancel the import."""
        await _cancel(self._preloading)

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
            ),
            address=self.address,
            entries=self._options.entries,
        )

    async def close_manager(self) -> None:
        """Delete the discovery ConfigMap and release the leases."""
        try:
            await _attempt(self._directory.clear)
        finally:
            await self.embedded.stop()

    async def start_builtin_controllers(self) -> None:
        """Start the built-in controllers."""
        self._builtin = BuiltinControllers(
            self.client,
            self._builtin_names,
            root_ca=self._serving.pair.certificate.decode(),
            on_failure=self.fail,
        )
        await self._builtin.start()

    async def stop_builtin_controllers(self) -> None:
        """Stop the built-in controllers."""
        await self._builtin.stop()

    async def start_controllers(self) -> None:
        """Start the daemon's own controllers and register them in the ConfigMap."""
        await self.embedded.start(self.fail)
        await self._directory.register(EMBEDDED, self.embedded.registration.text())

    async def drain_controllers(self) -> None:
        """Drain the daemon's own controllers, then external programs, in one budget of 45 s."""
        began = time.monotonic()
        await self.embedded.manager.drain()
        left_s = max(composition.DRAIN_S - (time.monotonic() - began), 0)
        await _attempt(partial(program_drain.wait_for_programs, self.client, timeout_s=left_s))

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
        await _cancel(self._following)

    async def wait_for_requirements(self) -> None:
        """Wait until CRDs are established and admission webhooks respond."""
        await readiness.wait(self.client, self.embedded.requirements)

    async def keep_certificates_renewed(self) -> None:
        """Check the certificates twice a day from now on."""
        self._renewing = asyncio.create_task(
            renewal.keep_renewed(
                self._serving,
                partial(certificates.ensure_serving, self.instance.tls_dir),
                self._use_certificate,
            ),
            name="rdd-certificates",
        )

    def _use_certificate(self, issued: certificates.Issued) -> None:
        """Use a renewed certificate for new connections, and publish its authority."""
        self._serving = issued
        self.tls.load_cert_chain(issued.certificate_path, issued.key_path)
        self._write_kubeconfig()

    async def cancel_renewal(self) -> None:
        """Stop checking."""
        await _cancel(self._renewing)

    async def announce_ready(self) -> None:
        """Report ready on `/readyz` and in the annotation of the ConfigMap."""
        self._is_ready = True
        await self._directory.set_ready(ready=True)

    async def announce_stopping(self) -> None:
        """Remove the annotation; `/readyz` fails from now on."""
        await _attempt(partial(self._directory.set_ready, ready=False))


def _selected(options: ServeOptions) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of built-in and own controllers to run. Raises ServiceError."""
    embedded = {entry.name: entry.group for entry in options.entries if entry.group != catalog.MOCK}
    names = selection.select_controllers(options.controllers, embedded)
    for line in catalog.unmet_needs(names, options.entries):
        log.warning("%s", line)
    try:
        return select(options.builtin_controllers), names
    except UnknownControllers as error:
        raise ServiceError(str(error)) from error


def _internal(method: str, path: str, /, **members: Any) -> Request:
    """Return a request of this process; in an admission handler, a nested one."""
    return Request(method, path, user=MANAGER, depth=in_process_webhooks.depth.get(), **members)


def _load(names: Sequence[str], entries: Sequence[ControllerEntry]) -> "type[Embedded]":
    from rdd.daemon.managers.embedded import Embedded

    importlib.import_module("rdd.daemon.managers.passthrough_backends")
    catalog.preload(names, entries)
    return Embedded


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(f"rdd.{module}")


def _tls(serving: certificates.Issued, client_ca_file: str = "") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(serving.certificate_path, serving.key_path)
    context.set_alpn_protocols(["http/1.1"])
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise HostError(
                f'failed to read the client authorities "{client_ca_file}" (--client-ca-file): '
                f"{error.strerror or error}"
            ) from error
        # Requested, not required: bearer tokens stay valid.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _attempt(step: Callable[[], Awaitable[None]]) -> None:
    """Run a write of the teardown; if the disk is full, the teardown continues."""
    try:
        await step()
    except ApiError as error:
        log.warning("during shutdown: %s", error)


async def _cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
