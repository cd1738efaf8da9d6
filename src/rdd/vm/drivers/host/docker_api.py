# SPDX-License-Identifier: Apache-2.0
"""The requests of Docker's API that a host agent sends: ping, list, inspect, events."""

import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rdd.host import unix_http

_TIMEOUT_S = 10.0
_MAX_LINE_BYTES = 1 << 20


class BadAnswer(Exception):
    """The engine responded late, with an error, or not in HTTP."""


def quoted(filters: Any) -> str:
    """Return a filter in the form a URL takes."""
    return quote(json.dumps(filters, separators=(",", ":")), safe="")


async def get(socket: Path, path: str) -> bytes:
    """Return the body of a response. Raises OSError, BadAnswer."""
    try:
        response, body = await unix_http.request(socket, path, timeout_s=_TIMEOUT_S, max_bytes=None)
    except (TimeoutError, unix_http.ConnectionLost, unix_http.MalformedResponse) as error:
        raise BadAnswer(f"{path}: {error}") from error
    _check(path, response)
    return body


@asynccontextmanager
async def open_lines(socket: Path, path: str) -> AsyncGenerator[AsyncIterator[bytes], None]:
    """Open a stream of lines; the engine has accepted it when the block is entered.

    Raises OSError, BadAnswer, also in the block.
    """
    try:
        async with unix_http.open_response(socket, path) as response:
            _check(path, response)
            async with aclosing(response.lines(_MAX_LINE_BYTES)) as found:
                yield found
    except (unix_http.ConnectionLost, unix_http.MalformedResponse) as error:
        raise BadAnswer(f"{path}: {error}") from error


def _check(path: str, response: unix_http.Response) -> None:
    if response.status != 200:
        raise BadAnswer(f"{path}: {response.reason or response.status}")
