# SPDX-License-Identifier: Apache-2.0
"""Calls to an etcd cluster: failover, authentication, outcomes.

A call goes to the endpoint that worked last. If it cannot be reached, or has no leader, the
others are tried in turn: every call carries `hasleader`, so a member that is cut off from the
others rejects it at once, before it is executed. Reads are also repeated elsewhere when the
connection is lost; writes are not, because the first attempt may have been executed: they end
with OutcomeUnknown, and the client of the API server decides, as with kube-apiserver.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from rdd.base import protowire
from rdd.grpc.channel import Channel, Duplex
from rdd.grpc.connection import Http2Connection
from rdd.grpc.errors import (
    GrpcError,
    GrpcFailure,
    MessageTooLarge,
    NotConnected,
    StatusCode,
)
from rdd.grpc.messages import Message, field
from rdd.store.contract import OutcomeUnknown, StoreUnreachable, Unavailable
from rdd.store.etcd import requests
from rdd.store.etcd.address import EtcdAddress

_TIMEOUT_S = 10.0
_CONNECT_S = 3.0
_KEEPALIVE_S = 6.0
_NO_LEADER = "etcdserver: no leader"
_OLD_AUTH = "revision of auth store is old"
OLDEST = (3, 4)
"""The oldest version of etcd whose watches and transactions the store relies on."""

_REJECTED = frozenset(
    {
        StatusCode.INVALID_ARGUMENT,
        StatusCode.NOT_FOUND,
        StatusCode.ALREADY_EXISTS,
        StatusCode.PERMISSION_DENIED,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.FAILED_PRECONDITION,
        StatusCode.OUT_OF_RANGE,
        StatusCode.UNIMPLEMENTED,
        StatusCode.UNAUTHENTICATED,
    }
)
"""Codes that exclude an execution; with any other a write may have been executed."""


class EtcdClient:
    """A client of one cluster."""

    def __init__(self, address: EtcdAddress) -> None:
        """Prepare the connections. Raises InvalidAddress."""
        self.address = address
        tls = address.ssl_context()
        self._password = address.password()
        self._metadata: Mapping[str, str] = {"hasleader": "true"}
        self._is_authenticated = not address.user
        self._authenticating = asyncio.Lock()
        self._channels = [
            Channel(
                partial(_connect, host, port, tls),
                name=f"etcd at {host}:{port}",
                authority=f"{host}:{port}",
                keepalive_s=_KEEPALIVE_S,
                connect_s=_CONNECT_S,
            )
            for host, port in address.endpoints
        ]
        self._current = 0

    async def close(self) -> None:
        """Close all connections."""
        for channel in self._channels:
            await channel.close()

    async def read(self, path: str, message: bytes) -> bytes:
        """Make a call that changes nothing. Raises StoreUnreachable, GrpcError."""
        return await self._call(path, message, is_read=True)

    async def write(self, path: str, message: bytes) -> bytes:
        """Make a call that may change something. Raises Unavailable, OutcomeUnknown, GrpcError."""
        return await self._call(path, message, is_read=False)

    @asynccontextmanager
    async def watch(self, request: bytes) -> AsyncGenerator[Duplex, None]:
        """Watch a range at one member that has a leader. Raises GrpcFailure, Unavailable."""
        index = self._current
        try:
            if not self._is_authenticated:
                await self._authenticate(self._channels[index])
            async with self._channels[index].duplex(requests.WATCH, self._metadata) as stream:
                stream.send(request)
                yield stream
        except (GrpcFailure, Unavailable) as error:
            self._forget_token(error)
            self._fail_over(index)
            raise

    async def version(self) -> str:
        """Return the version of the cluster. Raises StoreUnreachable, GrpcError."""
        return Message(await self.read(requests.STATUS, b"")).text(2)

    async def _call(self, path: str, message: bytes, *, is_read: bool) -> bytes:
        failures: list[str] = []
        was_refused = False
        for _ in range(2 * len(self._channels)):
            index = self._current
            channel = self._channels[index]
            may_retry = True
            try:
                if not self._is_authenticated:
                    await self._authenticate(channel)
                may_retry = is_read
                return await channel.unary(path, message, self._metadata, timeout_s=_TIMEOUT_S)
            except NotConnected as error:
                failures.append(_named(channel, error))
            except GrpcError as error:
                if self._forget_token(error):
                    if was_refused:
                        raise Unavailable(f"{channel.name}: {error.message}") from error
                    was_refused = True
                    continue
                if error.code in _REJECTED:
                    raise
                if not may_retry and error.message != _NO_LEADER:
                    raise OutcomeUnknown(f"{channel.name}: {error.message}") from error
                failures.append(f"{channel.name}: {error.message}")
            except MessageTooLarge:
                raise
            except GrpcFailure as error:
                if not may_retry:
                    raise OutcomeUnknown(_named(channel, error)) from error
                failures.append(_named(channel, error))
            self._fail_over(index)
            if len(failures) == len(self._channels):
                break
        raise StoreUnreachable("; ".join(failures))

    def _fail_over(self, failed: int) -> None:
        """Prefer the next endpoint from now on, unless another call has changed it already."""
        if self._current == failed:
            self._current = (failed + 1) % len(self._channels)

    def _forget_token(self, error: Exception) -> bool:
        """Return whether a call failed because its token is no longer valid."""
        if not self.address.user or not isinstance(error, GrpcError):
            return False
        if error.code != StatusCode.UNAUTHENTICATED and _OLD_AUTH not in error.message:
            return False
        self._is_authenticated = False
        return True

    async def _authenticate(self, channel: Channel) -> None:
        async with self._authenticating:
            if self._is_authenticated:
                return
            user = protowire.encode_bytes(1, self.address.user.encode())
            request = user + field(2, self._password)
            try:
                answer = await channel.unary(requests.AUTHENTICATE, request, timeout_s=_TIMEOUT_S)
            except GrpcError as error:
                if error.code not in _REJECTED:
                    raise
                raise Unavailable(
                    f'{channel.name}: user "{self.address.user}" is refused: {error.message}'
                ) from error
            self._metadata = {"hasleader": "true", "token": Message(answer).text(2)}
            self._is_authenticated = True


def _named(channel: Channel, error: GrpcFailure) -> str:
    """Return an error with the endpoint in front."""
    text = str(error)
    return text if text.startswith(channel.name) else f"{channel.name}: {text}"


async def _connect(
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    protocol: Callable[[], Http2Connection],
) -> tuple[Any, Http2Connection]:
    try:
        return await asyncio.get_running_loop().create_connection(protocol, host, port, ssl=tls)
    except ConnectionResetError as error:
        if tls is None or error.strerror:
            raise
        raise ConnectionResetError(
            "the TLS handshake failed; without TLS, omit the options ca, cert and key"
        ) from error
