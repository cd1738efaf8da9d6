# SPDX-License-Identifier: Apache-2.0
"""The control plane of one instance: store, API server, controllers, kubeconfig.

Start and stop have a fixed order, because each step is what the next one, or a
client that sees its result, relies on:

    store (locked) → certificates → API server → socket → kubeconfig
    → discovery ConfigMap → built-in controllers → our controllers → registered
    → what readiness waits for → ready
    stop: not ready → our controllers drain, with the API still up → built-in
    controllers → deregister → leases → kubeconfig gone → API drains → store

The kubeconfig is written after the socket answers and removed before it no longer
does, so whoever finds the file can connect. The discovery ConfigMap of the run
before is gone before the socket answers, so nobody takes it for ours.
"""

import asyncio
import contextlib
import importlib
import logging
import ssl
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from rdd.api.errors import ApiError
from rdd.apiserver.admission import endpoints
from rdd.apiserver.assemble import Server, ServerOptions, open_server
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import Request, User
from rdd.client import Client, LocalTransport, kubeconfig
from rdd.controllers import catalog
from rdd.controllers.builtin.manager import BuiltinControllers, UnknownControllers, select
from rdd.controllers.catalog import Entry
from rdd.daemon import readiness, renewal
from rdd.daemon.idle_timeout import IdleTracker
from rdd.daemon.managers import composition, departure, selection
from rdd.daemon.managers.discovery import EMBEDDED, Directory
from rdd.daemon.service.errors import ServiceError
from rdd.daemon.service.record import State
from rdd.host.directories import make_private_dir
from rdd.host.errors import HostError
from rdd.host.files import remove
from rdd.host.sockets import listen_on_loopback
from rdd.instance import Instance
from rdd.store.contract import Damaged, InUse, StoreError
from rdd.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from rdd.daemon.managers.embedded import Embedded

log = logging.getLogger("rdd.daemon")

ADMIN = User(kubeconfig.ADMIN_USER, ("system:masters",))
READER = User(kubeconfig.READER_USER)
MANAGER = User("system:kube-controller-manager", ("system:masters", "system:authenticated"))

_HTTP_DRAIN_S = 2.0

Report = Callable[[State, str], Awaitable[None]]
"""Told before each step: how far the control plane is, and what comes now."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What can be chosen when the control plane is started."""

    secure_port: int = 6443
    """Port on 127.0.0.1; another free one is taken if it is in use. 0: any."""
    controllers: str = "*"
    """Which of the project's own controllers run."""
    builtin_controllers: str = "*"
    """Which of the built-in controllers run."""
    client_ca_file: str = ""
    """Authorities whose client certificates identify users (common name, organisations)."""
    version: str = ""
    """Version of rdd, shown behind the Kubernetes version."""
    idle_timeout_s: float = 0
    """End after this time without a call; 0: never."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The variables of the process, for the controllers."""
    entries: Sequence[Entry] = catalog.ENTRIES
    """The controllers there are to choose from."""


class Running:
    """A control plane that answers."""

    def __init__(self, server: Server, address: str, tokens: dict[str, str]) -> None:
        self.server = server
        self.address = address
        self.tokens = tokens
        """Context name → bearer token."""
        self.failure: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        """Set when a part ends that must not."""
        self.idle: IdleTracker | None = None
        self.is_stopping = False

    def fail(self, error: BaseException) -> None:
        """A part has ended; the control plane cannot go on."""
        if not self.failure.done() and not self.is_stopping:
            self.failure.set_result(error)


async def _unreported(state: State, step: str) -> None:
    return None


@contextlib.asynccontextmanager
async def control_plane(
    instance: Instance, options: ServeOptions, *, report: Report = _unreported
) -> AsyncIterator[Running]:
    """Run the control plane of an instance while the block runs; ready when it is entered."""
    builtin, names = _selected(options)
    for directory in (instance.dir, instance.database.parent, instance.tls_dir):
        make_private_dir(directory)
    async with contextlib.AsyncExitStack() as stack:
        # Most of the time until the controllers are needed, the disk is waited for.
        loading = asyncio.create_task(
            asyncio.to_thread(_load, names, options.entries), name="rdd-load"
        )
        stack.push_async_callback(_ended, loading)
        await report(State.STARTING, "store")
        store = await _open_store(instance)
        stack.push_async_callback(store.close)
        stack.push_async_callback(report, State.STOPPING, "store")
        # What is left of a daemon that crashed would lead clients to a port nobody serves.
        remove(instance.config)
        await report(State.STARTING, "certificates")
        serving = certificates.ensure_serving(instance.tls_dir)
        signing_key = certificates.ensure_signing_key(instance.tls_dir)
        sock = listen_on_loopback(options.secure_port)
        stack.callback(sock.close)
        address = f"127.0.0.1:{sock.getsockname()[1]}"
        tokens = {
            kubeconfig.ADMIN_CONTEXT: str(uuid.uuid4()),
            kubeconfig.READER_CONTEXT: str(uuid.uuid4()),
        }
        await report(State.STARTING, "server")
        server = await open_server(
            store,
            ServerOptions(
                tokens={
                    tokens[kubeconfig.ADMIN_CONTEXT]: ADMIN,
                    tokens[kubeconfig.READER_CONTEXT]: READER,
                },
                signing_key=signing_key,
                address=address,
                version_suffix=f"rdd-{options.version}" if options.version else "",
            ),
        )
        stack.push_async_callback(server.close)
        running = Running(server, address, tokens)
        not_ready = {"reason": "the controllers are starting"}
        server.readyz.add("rdd-controllers", lambda: not_ready["reason"])
        client = Client(LocalTransport(server.handle, _internal))
        directory_map = Directory(client)
        await directory_map.clear()

        await report(State.STARTING, "listen")
        tls = _tls(serving, options.client_ca_file)
        if options.idle_timeout_s:
            running.idle = IdleTracker(server.api, options.idle_timeout_s, instance.lima_home)
        http = HttpServer(running.idle or server.api)
        await http.listen(sock, tls)
        stack.push_async_callback(_close_http, http, server)
        stack.push_async_callback(report, State.STOPPING, "api")
        write_kubeconfig(instance, address, serving.pair, tokens)
        stack.callback(remove, instance.config)
        stack.push_async_callback(_ended, asyncio.create_task(_preload(), name="rdd-preload"))

        await report(State.SERVING, "register")
        await directory_map.create()
        embedded = (await loading)(
            server,
            client,
            names,
            composition.controller_environment(
                instance, environment=options.environment, version=options.version
            ),
            address=address,
            entries=options.entries,
        )
        stack.push_async_callback(embedded.stop)
        stack.push_async_callback(_attempted, directory_map.clear)
        stack.push_async_callback(report, State.STOPPING, "deregister")
        controllers = BuiltinControllers(
            client,
            builtin,
            root_ca=serving.pair.certificate.decode(),
            on_failure=running.fail,
        )
        await report(State.SERVING, "controllers")
        stack.push_async_callback(controllers.stop)
        await controllers.start()
        stack.push_async_callback(_drain, embedded, client)
        await embedded.start(running.fail)
        await directory_map.register(EMBEDDED, embedded.registration.text())
        stack.push_async_callback(_ended, _follow_programs(client, server, running))

        await report(State.REGISTERED, "requirements")
        await readiness.wait(client, embedded.requirements)
        renewing = asyncio.create_task(
            renewal.keep_renewed(
                serving,
                partial(certificates.ensure_serving, instance.tls_dir),
                lambda issued: _renewed(instance, running, tls, issued),
            ),
            name="rdd-certificates",
        )
        stack.push_async_callback(_ended, renewing)
        not_ready["reason"] = ""
        await directory_map.set_ready(ready=True)
        await report(State.READY, "")
        try:
            yield running
        finally:
            running.is_stopping = True
            not_ready["reason"] = "process is shutting down"
            await report(State.STOPPING, "drain")
            await _attempted(partial(directory_map.set_ready, ready=False))


def _selected(options: ServeOptions) -> tuple[Sequence[str], Sequence[str]]:
    """The built-in controllers and ours to run. Raises ServiceError for unknown names."""
    embedded = {entry.name: entry.group for entry in options.entries if entry.group != catalog.MOCK}
    names = selection.select_controllers(options.controllers, embedded)
    for line in catalog.unmet(names, options.entries):
        log.warning("%s", line)
    try:
        return select(options.builtin_controllers), names
    except UnknownControllers as error:
        raise ServiceError(str(error)) from error


def _internal(method: str, path: str, /, **members: Any) -> Request:
    """A request of a part of this process; in an admission handler, a nested one."""
    return Request(method, path, user=MANAGER, depth=endpoints.depth.get(), **members)


def _load(names: Sequence[str], entries: Sequence[Entry]) -> "type[Embedded]":
    """Import what the controllers need."""
    from rdd.daemon.managers.embedded import Embedded

    importlib.import_module("rdd.daemon.managers.passthrough_backends")
    catalog.preload(names, entries)
    return Embedded


async def _open_store(instance: Instance) -> SqliteStore:
    try:
        return await SqliteStore.open(instance.database)
    except Damaged as error:
        raise ServiceError(
            f"{error} `rdd service reset` keeps it as a backup and starts with an empty store."
        ) from error
    except InUse as error:
        raise ServiceError(str(error)) from error
    except (StoreError, OSError) as error:
        raise ServiceError(f'cannot use the store "{instance.database}": {error}') from error


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
        # Asked for, not required: tokens go on working.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _renewed(
    instance: Instance, running: Running, tls: ssl.SSLContext, serving: certificates.Issued
) -> None:
    """Use a new certificate for new connections, and tell clients whom to trust now."""
    tls.load_cert_chain(serving.certificate_path, serving.key_path)
    write_kubeconfig(instance, running.address, serving.pair, running.tokens)


def write_kubeconfig(
    instance: Instance, address: str, pair: certificates.KeyPair, tokens: dict[str, str]
) -> None:
    """Write the kubeconfig of a running control plane: context `root` (admin) and `user`."""
    from rdd.host.files import write_atomically

    text = kubeconfig.render(
        f"https://{address}",
        authority=pair.certificate.decode(),
        admin_token=tokens[kubeconfig.ADMIN_CONTEXT],
        reader_token=tokens[kubeconfig.READER_CONTEXT],
    )
    write_atomically(instance.config, text, durable=False)


async def _preload() -> None:
    """Load what only the first CRD needs, so that it does not wait 40 ms for imports."""
    await asyncio.to_thread(_import)


def _import() -> None:
    for module in (
        "schema.crd.validation",
        "schema.validate",
        "schema.rules.checks",
        "schema.rules.evaluation",
        "api.apply",
    ):
        importlib.import_module(f"rdd.{module}")


def _follow_programs(client: Client, server: Server, running: Running) -> "asyncio.Task[None]":
    """Lead passthrough requests to the controllers of external programs, from now on."""
    from rdd.daemon.managers.passthrough_backends import Backends

    def ended(task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            running.fail(error)

    following = asyncio.create_task(
        Backends(client, server.passthroughs).run(), name="rdd-passthrough-backends"
    )
    following.add_done_callback(ended)
    return following


async def _drain(embedded: "Embedded", client: Client) -> None:
    """Let our controllers finish, and those of external programs, in one budget for all."""
    began = time.monotonic()
    await embedded.manager.drain()
    left_s = max(composition.DRAIN_S - (time.monotonic() - began), 0)
    await _attempted(partial(departure.others_left, client, timeout_s=left_s))


async def _attempted(step: Callable[[], Awaitable[None]]) -> None:
    """A write on the way out; when the disk is full, the rest must still be closed in order."""
    try:
        await step()
    except ApiError as error:
        log.warning("on the way out: %s", error)


async def _ended(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _close_http(http: HttpServer, server: Server) -> None:
    """Stop accepting, end the watches (they would never end by themselves), finish the rest."""
    closing = asyncio.create_task(http.close(timeout_s=_HTTP_DRAIN_S), name="rdd-http-close")
    await asyncio.sleep(0)
    hubs = list(server.core.watchers.values())
    server.core.watchers.clear()
    for hub in hubs:
        hub.close()
    await closing
