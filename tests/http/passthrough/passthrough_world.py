# SPDX-License-Identifier: Apache-2.0
"""A server on a TLS socket with endpoints in this process or behind a proxy."""

import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from rdd.api import names
from rdd.apiserver.auth import certificates
from rdd.apiserver.http.listener import HttpServer
from rdd.apiserver.http.request import User
from rdd.apiserver.passthrough.proxy import PassthroughBackend
from rdd.apiserver.server import ApiServer, ServerOptions, open_server
from rdd.host.sockets import listen_on_loopback
from rdd.runtime.passthrough import CHALLENGE, Handler, HttpPassthrough
from rdd.store.memory import MemoryStore

SECRET = "a secret of this run"
TOKENS = {"admin-token": User("admin", ("system:masters",)), "user-token": User("user")}


class World:
    """The server, a client, and a host of endpoints."""

    def __init__(
        self, server: ApiServer, http: HttpServer, url: str, session: aiohttp.ClientSession
    ) -> None:
        self.server = server
        self.http = http
        self.url = url
        self.session = session
        """A session of the administrator."""
        self.external: HttpPassthrough | None = None
        """The host of endpoints outside this process."""
        self.backend: PassthroughBackend | None = None

    def offer(self, handler: Handler, controller: str = "c", endpoint: str = "e") -> None:
        if self.external is None or self.backend is None:
            self.server.passthroughs.register(controller, endpoint, handler)
        else:
            self.external.add(controller, endpoint, handler)
            self.server.passthroughs.register(controller, endpoint, self.backend.handle)

    def withdraw(self, handler: Handler, controller: str = "c", endpoint: str = "e") -> None:
        if self.external is None or self.backend is None:
            self.server.passthroughs.unregister(controller, endpoint, handler)
        else:
            self.server.passthroughs.unregister(controller, endpoint, self.backend.handle)
            self.external.remove(controller, endpoint, handler)

    def at(self, path: str = "/passthrough/c/e/") -> str:
        return self.url + path

    async def get(self, path: str = "/passthrough/c/e/", **options: Any) -> tuple[int, Any]:
        """Return status and body, decoded if it is JSON."""
        async with self.session.get(self.at(path), **options) as response:
            is_json = response.content_type == "application/json"
            return response.status, await response.json() if is_json else await response.text()


@asynccontextmanager
async def open_world(directory: Path, *, is_external: bool) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        store = MemoryStore()
        stack.push_async_callback(store.close)
        server = await open_server(store, ServerOptions(tokens=TOKENS))
        stack.push_async_callback(server.close)
        issued = certificates.ensure_serving(directory)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(issued.certificate_path, issued.key_path)
        http = HttpServer(server)
        sock = listen_on_loopback(0)
        await http.listen(sock, tls)
        stack.push_async_callback(http.close, timeout_s=1.0)
        trust = ssl.create_default_context(cafile=str(issued.certificate_path))
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=trust),
                headers={"Authorization": "Bearer admin-token"},
                timeout=aiohttp.ClientTimeout(total=20),
            )
        )
        url = f"https://127.0.0.1:{sock.getsockname()[1]}"
        world = World(server, http, url, session)
        if is_external:
            world.external = HttpPassthrough(listen_on_loopback(0), secret=SECRET)
            await world.external.start()
            stack.push_async_callback(world.external.stop)
            world.backend = backend_of(world.external)
            stack.push_async_callback(world.backend.close)
        yield world


def backend_of(host: HttpPassthrough, *, secret: str = SECRET) -> PassthroughBackend:
    return PassthroughBackend(
        host.url, secret_header=names.PASSTHROUGH_SECRET_HEADER, secret=secret, challenge=CHALLENGE
    )
