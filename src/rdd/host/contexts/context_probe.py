# SPDX-License-Identifier: Apache-2.0
"""Probe the server of a context: a context may be replaced only if its server is unhealthy.

Docker contexts and kube contexts are found in different ways and probed by the same rule: a
server is unhealthy if it does not respond, or responds with 5xx.
"""

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rdd.host import unix_http

TIMEOUT_S = 3.0
_SERVER_ERROR = 500


class Address(NamedTuple):
    """The address of a server: a unix socket, or a host and a port."""

    path: str = ""
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether to replace the current context, and the reason."""

    should_switch: bool
    reason: str
    current: str = ""
    """The context in use, which `make_current` replaces."""


async def probe_context(
    who: str, address: Address, target: str, *, current: str, host_header: str = "localhost"
) -> Verdict:
    """Probe the server of the context `current`; `who` names it in the reason. Never raises."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            status = await _status(address, target, host_header)
    except ssl.SSLError as error:
        return Verdict(False, f"{who} rejects the connection: {error}", current)
    except OSError as error:
        why = str(error) or "timeout"
        return Verdict(True, f"{who} does not respond: {why}", current)
    if status >= _SERVER_ERROR:
        return Verdict(True, f"{who} responds with {status}", current)
    return Verdict(False, f"{who} responds", current)


async def _status(address: Address, target: str, host_header: str) -> int:
    """Return the status of a GET; follows no redirect and reads no body. Raises OSError."""
    if address.path:
        connection = await unix_http.connect(Path(address.path))
    else:
        connection = unix_http.Connection(
            *await asyncio.open_connection(address.host, address.port, ssl=address.tls)
        )
    try:
        headers = {"Connection": "close"}
        await connection.send("GET", target, headers=headers, host=host_header)
        response = unix_http.Response(connection, "GET")
        await response.receive_head()
        return response.status
    finally:
        connection.close()
