# SPDX-License-Identifier: Apache-2.0
"""gRPC calls to an engine over its unix socket, with the failures of this package."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from rdd.engine.errors import EngineError, EngineProtocolError, EngineUnreachable
from rdd.grpc import channel
from rdd.grpc.errors import GrpcError, GrpcFailure, GrpcProtocolError, StatusCode

# gRPC codes as HTTP statuses, which the rest of this package uses.
_STATUSES = {
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.FAILED_PRECONDITION: 409,
    StatusCode.UNIMPLEMENTED: 501,
}
_NO_METADATA: Mapping[str, str] = {}


class Channel:
    """Makes calls to one unix socket."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._channel = channel.Channel(
            lambda protocol: asyncio.get_running_loop().create_unix_connection(
                protocol, str(socket)
            ),
            name=str(socket),
        )

    async def close(self) -> None:
        """Close the connection and end its calls."""
        await self._channel.close()

    async def unary(
        self, path: str, message: bytes, metadata: Mapping[str, str] = _NO_METADATA
    ) -> bytes:
        """Make a unary call. Raises EngineFailure."""
        with _engine_failures():
            return await self._channel.unary(path, message, metadata)

    @asynccontextmanager
    async def stream(
        self, path: str, message: bytes, metadata: Mapping[str, str] = _NO_METADATA
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Make a call and yield its messages; leaving the block ends it. Raises EngineFailure."""
        with _engine_failures():
            async with self._channel.stream(path, message, metadata) as messages:
                yield messages


@contextmanager
def _engine_failures() -> Iterator[None]:
    try:
        yield
    except GrpcError as error:
        if error.code == StatusCode.UNAVAILABLE:
            raise EngineUnreachable(error.message) from error
        status = _STATUSES.get(StatusCode(error.code), 500) if error.code <= 16 else 500
        raise EngineError.of(status, error.message) from error
    except GrpcProtocolError as error:
        raise EngineProtocolError(str(error)) from error
    except GrpcFailure as error:
        raise EngineUnreachable(str(error)) from error
