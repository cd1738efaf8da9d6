# SPDX-License-Identifier: Apache-2.0
"""Whether somebody answers HTTP at an address: one GET, of which only the status counts.

It is used on servers of the user, reached over a unix socket or TCP with or without
TLS, to find out if they are alive. No redirect is followed and no body is read.
"""

import asyncio
import ssl
from typing import NamedTuple

TIMEOUT_S = 3.0


class Address(NamedTuple):
    """Where to connect: a unix socket, or a host and a port."""

    path: str = ""
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None


async def status_of(
    address: Address, target: str, *, timeout_s: float = TIMEOUT_S, host_header: str = "localhost"
) -> int:
    """The HTTP status of a GET.

    Raises OSError (also TimeoutError and ssl.SSLError) when there is no connection,
    ConnectionError when what comes back is no HTTP.
    """
    async with asyncio.timeout(timeout_s):
        reader, writer = await _connect(address)
        try:
            request = f"GET {target} HTTP/1.1\r\nHost: {host_header}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            await writer.drain()
            try:
                line = await reader.readline()
            except ValueError as error:  # a line without end
                raise ConnectionError("the answer is no HTTP") from error
        finally:
            writer.close()
    version, _, rest = line.decode("latin-1").partition(" ")
    status = rest[:3]
    if not version.startswith("HTTP/") or not status.isdigit():
        raise ConnectionError("the answer is no HTTP")
    return int(status)


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.path:
        return await asyncio.open_unix_connection(address.path)
    return await asyncio.open_connection(address.host, address.port, ssl=address.tls)
