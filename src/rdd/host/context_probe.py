# SPDX-License-Identifier: Apache-2.0
"""The judgement on a context of the user: dead, so that ours may take its place, or left alone.

Docker contexts and kube contexts are found in different ways, and then judged here by the
same rule: only where nobody answers, or with 5xx, it is dead.
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
    """Whether to switch, and why."""

    should_switch: bool
    reason: str
    current: str = ""
    """The context in use now; what `make_current` is told it replaces."""


async def probe_context(
    who: str, address: Address, target: str, *, current: str, host_header: str = "localhost"
) -> Verdict:
    """Ask at the address of the context `current`; `who` names whom. Never raises."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            status = await _status(address, target, host_header)
    except ssl.SSLError as error:
        return Verdict(False, f"{who} refuses: {error}", current)
    except OSError as error:
        why = str(error) or "no answer in time"
        return Verdict(True, f"{who} does not answer: {why}", current)
    if status >= _SERVER_ERROR:
        return Verdict(True, f"{who} answers {status}", current)
    return Verdict(False, f"{who} answers", current)


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
