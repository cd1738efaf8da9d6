# SPDX-License-Identifier: Apache-2.0
"""The API server in the event loop of a test, without a socket.

It is the server of the daemon with the built-in controllers (namespace deletion,
garbage collection, default accounts, …), on a store in memory. The state after
the start is recorded; `reset` restores exactly that state by one commit: it
deletes added objects and rewrites changed and deleted ones. Revisions keep
growing and all watches end, so a client that outlives its test sees deletions,
never an older revision.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rdd.api import errors, names
from rdd.api.types import Object
from rdd.apiserver.auth import certificates
from rdd.apiserver.bootstrap import NAMESPACES
from rdd.apiserver.endpoints.metrics import ServerMetrics
from rdd.apiserver.fairness import InFlight
from rdd.apiserver.http.request import SYSTEM, AnyResponse, Request, ResponseWriter, Stream, User
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.apiserver.state import watchers
from rdd.store.contract import Delete, Op, Put
from rdd.store.memory import MemoryStore
from rdd.store.options import StoreOptions
from rdd.testing import manifests, wire
from rdd.testing.clock import Clock
from rdd.testing.faults import Faults, Handle
from rdd.testing.manifests import Source

if TYPE_CHECKING:
    from rdd.controllers.builtin.manager import BuiltinControllers

_MANAGER = User("system:kube-controller-manager", ("system:masters",))
_WITH_INITIAL_EVENTS = {
    "sendInitialEvents": True,
    "resourceVersionMatch": "NotOlderThan",
    "allowWatchBookmarks": True,
}
_RESET = "The server was reset; list again and watch from there."
_CRDS = f"/apis/{names.EXTENSIONS_GROUP}/v1/customresourcedefinitions"
_MAX_OPS = 1024  # of one commit; the limit of a store is higher


@dataclass(slots=True)
class Options:
    """The initial content of a test server. All of it survives `reset`."""

    crds: Sequence[Source] = ()
    """CustomResourceDefinitions: files, directories or dicts."""
    objects: Sequence[Source] = ()
    """Other objects, created after the CRDs."""
    users: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further users and their groups; RBAC objects grant their permissions."""
    builtin_controllers: str = "*"
    """The built-in controllers to run: names separated by commas, `*` for all, `-name`
    to exclude one; empty: none, and the deletion of namespaces never finishes."""
    clock: Clock | None = None
    """The clock of the server; default: a running clock."""
    limits: InFlight = field(default_factory=InFlight)
    """Limits of requests in flight."""


class Server:
    """A real API server for tests, in the running event loop.

    Use it as an async context manager, or call `start` and `close`. Make
    requests with `request` and `watch`.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        crds: Sequence[Source] = (),
        address: str = "127.0.0.1:6443",
        root_ca: str = "",
    ) -> None:
        self.options = options or Options()
        self.clock = self.options.clock or Clock()
        self._crds = [*self.options.crds, *crds]
        self._address = address
        self._root_ca = root_ca
        self._controllers: BuiltinControllers | None = None
        # The tasks of open watches, and whether their end was requested.
        self._watches: dict[asyncio.Task[Any], bool] = {}
        self._running: ApiServer | None = None
        self._store: MemoryStore | None = None
        self._initial: dict[str, tuple[bytes, int]] = {}
        self.faults = Faults(self._respond)
        self.tokens = {name: f"token-of-{name}" for name in self.options.users}
        """Bearer tokens by user; `admin` has all permissions."""
        self.tokens["admin"] = "token-of-admin"

    # -- life cycle

    async def start(self) -> None:
        """Start and create the CRDs and objects; raise ManifestError if one is rejected."""
        users = {self.tokens[n]: User(n, tuple(g)) for n, g in self.options.users.items()}
        users[self.tokens["admin"]] = wire.ADMIN
        self._store = MemoryStore(options=StoreOptions(clock=self.clock))
        self._running = await open_server(
            self._store,
            ServerOptions(
                tokens=users,
                signing_key=_signing_key(),
                address=self._address,
                clock=self.clock,
                limits=self.options.limits,
                counts_quotas=_counts_quotas(self.options.builtin_controllers),
            ),
        )
        try:
            await self._start_controllers()
            await self.install(*self._crds)
            for obj in manifests.load(self.options.objects):
                await self.create(obj)
            await self._settle()
            await self._record_state()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End all watches and stop."""
        self.faults.clear()
        await self._end_watches()
        if self._controllers is not None:
            await self._controllers.stop()
            self._controllers = None
        if self._running is not None and self._store is not None:
            await self._running.close()
            await self._store.close()
            self._running = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def running(self) -> ApiServer:
        """The wrapped server, for what this class does not offer."""
        if self._running is None:
            raise RuntimeError("the server is not running: call start() or use a `with` statement")
        return self._running

    @property
    def store(self) -> MemoryStore:
        """The store of the running server."""
        if self._store is None:
            raise RuntimeError("the server is not running: call start() or use a `with` statement")
        return self._store

    @property
    def metrics(self) -> ServerMetrics:
        """The counters and gauges of /metrics."""
        return self.running.metrics

    # -- requests

    async def handle(self, request: Request) -> AnyResponse:
        """Respond to a request; faults apply, and a watch ends at the next reset."""
        response = await self.faults.handle(request)
        if isinstance(response, Stream) and request.info.verb == "watch":
            return self._until_reset(response)
        return response

    def _until_reset(self, stream: Stream) -> Stream:
        async def produce(writer: ResponseWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._watches[task] = False
            try:
                await stream.produce(writer)
            except asyncio.CancelledError:
                if not self._watches[task]:
                    raise
                task.uncancel()
                writer.push(watchers.error_line(errors.Expired(_RESET)))
            finally:
                del self._watches[task]

        return Stream(
            produce, status=stream.status, content_type=stream.content_type, headers=stream.headers
        )

    async def _end_watches(self) -> None:
        for task in self._watches:
            self._watches[task] = True
            task.cancel()
        while self._watches:  # noqa: ASYNC110  (they end within two iterations of the loop)
            await asyncio.sleep(0)

    async def _respond(self, request: Request) -> AnyResponse:
        return await self.running.handle(request)

    async def request(
        self,
        method: str,
        path: str,
        body: Object | list[Any] | bytes | str | None = None,
        *,
        query: wire.QueryArgument | None = None,
        content_type: str = "",
        headers: Mapping[str, str] | None = None,
        user: User | None = None,
    ) -> wire.Reply:
        """Make a request and return the complete response.

        Dicts and lists are sent as JSON. Without `user` and Authorization
        header the user is the administrator.
        """
        request = wire.make_request(
            method,
            path,
            body,
            query=query,
            content_type=content_type,
            headers=headers,
            user=user,
        )
        return await wire.collect(await self.handle(request))

    async def watch(
        self,
        path: str,
        *,
        query: wire.QueryArgument | None = None,
        headers: Mapping[str, str] | None = None,
        user: User | None = None,
    ) -> wire.WatchStream:
        """Open a watch (`watch=true` is added); raise ConnectionRefusedError if it is rejected."""
        request = wire.make_request(
            "GET", path, query={"watch": True, **(query or {})}, headers=headers, user=user
        )
        return await self._open(request, self.handle)

    async def _open(self, request: Request, handle: Handle) -> wire.WatchStream:
        response = await handle(request)
        if isinstance(response, Stream):
            stream = wire.WatchStream(response)
            await asyncio.sleep(0)  # the watcher is registered now and misses no later change
            return stream
        raise ConnectionRefusedError(response.status, response.body.decode())

    async def until(
        self, path: str, condition: Callable[[Object | None], bool], *, timeout_s: float = 20.0
    ) -> Object | None:
        """Wait until a condition is true for the object of a path; return the object.

        The condition is evaluated for the current object and after every change,
        with None if the object does not exist. Faults do not apply. Raises
        TimeoutError with the last state.
        """
        collection, _, name = path.rpartition("/")
        obj: Object | None = None
        query = {"watch": True, "fieldSelector": f"metadata.name={name}", **_WITH_INITIAL_EVENTS}
        request = wire.make_request("GET", collection, query=query)
        try:
            async with (
                asyncio.timeout(timeout_s),
                await self._open(request, self._respond) as events,
            ):
                async for event in events:
                    if event["type"] == "ERROR":
                        raise ConnectionResetError(event["object"].get("message"))
                    if event["type"] != "BOOKMARK":
                        obj = None if event["type"] == "DELETED" else event["object"]
                    elif names.INITIAL_EVENTS_END not in event["object"]["metadata"].get(
                        "annotations", {}
                    ):
                        continue
                    if condition(obj):
                        return obj
        except TimeoutError:
            raise TimeoutError(f"{path}: the condition is still false for {obj}") from None
        raise ConnectionResetError("the watch has ended")

    async def create(self, obj: Object) -> Object:
        """Create an object by its kind, as the server itself; raise ManifestError."""
        api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
        group, _, version = api_version.rpartition("/")
        resource = self.running.core.registry.by_kind(group, kind, version)
        if resource is None:
            raise manifests.ManifestError(f"{api_version} {kind}: the server does not serve it")
        where = resource.path_base
        if resource.namespaced:
            where += f"/namespaces/{(obj.get('metadata') or {}).get('namespace') or 'default'}"
        request = wire.make_request("POST", f"{where}/{resource.plural}", obj, user=SYSTEM)
        reply = await wire.collect(await self.running.handle(request))
        result: Object = reply.json()
        if reply.status != 201:
            raise manifests.ManifestError(str(result.get("message")))
        return result

    async def install(self, *crds: Source) -> None:
        """Create CRDs and wait until all of them are served."""
        created = [
            (await self.create(crd))["metadata"]["name"] for crd in manifests.load_crds(crds)
        ]
        await self._settle()
        for name in created:
            if not self.running.custom.served(name):
                reply = await self._respond(wire.make_request("GET", f"{_CRDS}/{name}"))
                status = (await wire.collect(reply)).json()["status"]
                why = "; ".join(c["message"] for c in status["conditions"])
                raise manifests.ManifestError(f"{name} is not served: {why}")

    async def advance(self, seconds: float) -> None:
        """Move the clock forward and remove expired objects."""
        self.clock.advance(seconds)
        await self.store.expire()

    # -- reset

    async def reset(self) -> None:
        """Restore the initial state, end all watches and remove all faults."""
        self.faults.clear()
        self.clock.reset()
        await self._end_watches()
        changes = await self._changes()
        for start in range(0, len(changes), _MAX_OPS):
            await self.store.commit(changes[start : start + _MAX_OPS])
        await self._settle()
        await self._record_state()
        await self.store.compact(self.store.revision)

    async def _changes(self) -> list[Op]:
        page = await self.store.scan("")
        ops: list[Op] = []
        present = set()
        for record in page.records:
            present.add(record.key)
            initial = self._initial.get(record.key)
            if initial is None:
                ops.append(Delete(record.key))
            elif initial[1] != record.revision:
                ops.append(Put(record.key, initial[0]))
        ops += [Put(key, value) for key, (value, _) in self._initial.items() if key not in present]
        return ops

    async def _record_state(self) -> None:
        page = await self.store.scan("")
        self._initial = {r.key: (r.value, r.revision) for r in page.records}

    # -- controllers

    async def _start_controllers(self) -> None:
        from rdd.client import Client
        from rdd.client.local import LocalTransport
        from rdd.controllers.builtin.manager import BuiltinControllers, select

        controllers = select(self.options.builtin_controllers)
        if not controllers:
            return
        transport = LocalTransport(self.running.handle, partial(Request, user=_MANAGER))
        self._controllers = BuiltinControllers(
            Client(transport), controllers, root_ca=self._root_ca, clock=self.clock
        )
        await self._controllers.start()
        per_namespace = {"serviceaccount": ("serviceaccounts", "default")}
        if self._root_ca:
            per_namespace["root-ca"] = ("configmaps", names.ROOT_CA_CONFIG_MAP)
        for resource, name in (per_namespace[n] for n in controllers if n in per_namespace):
            for namespace in NAMESPACES:
                await self._wait_for(resource, namespace, name)

    async def _wait_for(self, resource: str, namespace: str, name: str) -> None:
        """Wait for an object that a controller creates without external input."""
        while self.running.lister.get(resource, namespace, name) is None:  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def _settle(self) -> None:
        """Wait until the server has processed all changes of CRDs."""
        running = self.running
        await running.custom.settled()
        wanted = {f"{v}.{g}" for g, v in running.core.registry.group_versions()}
        # No step depends on external input: each iteration of the loop is progress.
        while wanted != {o["metadata"]["name"] for o in running.lister.list("apiservices")}:  # noqa: ASYNC110
            await asyncio.sleep(0)


def _counts_quotas(selection: str) -> bool:
    from rdd.controllers.builtin.manager import RESOURCE_QUOTA, select

    return bool(selection) and RESOURCE_QUOTA in select(selection)


@cache
def _signing_key() -> bytes:
    """Return the key of service account tokens, one per process: creating a key takes time."""
    with tempfile.TemporaryDirectory(prefix="rdd-testing-") as directory:
        return certificates.ensure_signing_key(Path(directory))
