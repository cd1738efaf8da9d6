# SPDX-License-Identifier: Apache-2.0
"""The transport over HTTP(S), on aiohttp.

Tokens of an instance change with every start of its daemon, and so may the port.
A transport made from a kubeconfig file therefore reloads the file when a request
is rejected (401) or cannot connect, and retries once if the file has changed. A
client survives restarts of the daemon this way, and its watches resume.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Self

import aiohttp

from rdd.client import kubeconfig
from rdd.client.errors import Unreachable
from rdd.client.kubeconfig import ConnectionConfig, KubeconfigError
from rdd.client.tls import client_context
from rdd.client.transport import (
    Call,
    EncodedEvent,
    Keep,
    Reply,
    WatchRejected,
    event_of_line,
)

CONNECT_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 60.0
WATCH_TIMEOUT_S = 1800


class HttpsTransport:
    """Sends calls over HTTP(S).

    `reload` returns the current configuration; use `from_file` to follow a kubeconfig.
    """

    saves_bytes = True
    watch_timeout_s = WATCH_TIMEOUT_S
    wants_bookmarks = True
    streams_state = False

    def __init__(
        self,
        connection: ConnectionConfig,
        *,
        reload: Callable[[], ConnectionConfig] | None = None,
        local_address: str = "",
    ) -> None:
        """`local_address` is the address to connect from; empty: any."""
        self._connection = connection
        self._local = (local_address, 0) if local_address else None
        self._reload = reload
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_file(cls, path: Path, *, context: str = "") -> Self:
        """Return a transport for a kubeconfig, reloaded whenever it may be stale."""

        def load() -> ConnectionConfig:
            return kubeconfig.load(path, context=context)

        return cls(load(), reload=load)

    @property
    def connection(self) -> ConnectionConfig:
        """The configuration in use."""
        return self._connection

    async def request(self, call: Call) -> Reply:
        """Return the reply to a call."""
        async with self._send(call, aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S)) as response:
            return await _reply(response)

    async def watch(self, call: Call, keep: Keep | None) -> AsyncGenerator[EncodedEvent, None]:
        """Yield the events of a watch."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        async with self._send(call, timeout) as response:
            if response.status != 200:
                raise WatchRejected(await _reply(response))
            rest = b""
            async for data in response.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                for event in map(event_of_line, filter(None, lines)):
                    if keep is None or keep(event.type, event.body):
                        yield event

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    @contextlib.asynccontextmanager
    async def _send(
        self, call: Call, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        used = self._connection
        try:
            response = await self._attempt(call, timeout)
        except (aiohttp.ClientConnectionError, TimeoutError) as error:
            if not await self._is_outdated(used):
                raise self._unreachable(error) from error
            response = None
        if response is not None and response.status == 401 and await self._is_outdated(used):
            response.close()
            response = None
        try:
            if response is None:
                response = await self._attempt(call, timeout)
            async with response:
                yield response
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def _attempt(self, call: Call, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if self._session is None:
            is_secure = self._connection.server.startswith("https://")
            tls = client_context(self._connection) if is_secure else True
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls, limit=0, local_addr=self._local),
                skip_auto_headers=("User-Agent", "Content-Type", "Accept"),
            )
        headers = [*call.headers.items(), *self._connection.impersonate]
        if self._connection.token:
            headers.append(("Authorization", f"Bearer {self._connection.token}"))
        return await self._session.request(
            call.method,
            self._connection.server + call.path,
            params=[(name, value) for name, values in call.query.items() for value in values],
            headers=headers,
            data=call.body or None,
            timeout=timeout,
            server_hostname=self._connection.server_name or None,
            allow_redirects=False,
        )

    async def _is_outdated(self, used: ConnectionConfig) -> bool:
        """Reload the kubeconfig; return whether it differs from what a call has used."""
        if self._reload is None or self._connection != used:
            return self._connection != used  # another call has reloaded it already
        try:
            connection = await asyncio.to_thread(self._reload)
        except KubeconfigError:
            return False  # the daemon is stopped, or about to write the file
        if connection != self._connection:
            self._connection = connection
            # Open connections lead to a server that has stopped.
            await self.close()
        return connection != used

    def _unreachable(self, error: Exception) -> Unreachable:
        text = " ".join(str(error).split()) or type(error).__name__
        return Unreachable(f"{self._connection.server}: {text}")


async def _reply(response: aiohttp.ClientResponse) -> Reply:
    return Reply(response.status, await response.read(), tuple(response.headers.items()))
