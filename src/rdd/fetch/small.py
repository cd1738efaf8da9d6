# SPDX-License-Identifier: Apache-2.0
"""Small responses: checksum files, signatures, lists of versions.

They are read into memory, up to a limit and within a deadline: a server that sends without end,
one byte a minute or a compressed bomb costs no more than that.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rdd.fetch import failures
from rdd.fetch.failures import FetchError, FetchFailure
from rdd.fetch.network import Network

_DEADLINE_S = 120.0
_CHUNK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class SmallResponse:
    """A response that is not an error."""

    status: int
    content: bytes
    etag: str
    last_modified: str


async def read_small(
    url: str,
    *,
    limit_bytes: int,
    network: Network,
    method: str = "GET",
    body: str = "",
    headers: Mapping[str, str] | None = None,
) -> SmallResponse:
    """Send a request and return its response, also 304. Raises FetchError."""
    import aiohttp

    actual_url = network.resolve(url)
    options: dict[str, Any] = network.options(actual_url)
    if body:
        options["data"] = body.encode()
    try:
        async with (
            asyncio.timeout(_DEADLINE_S),
            network.session() as session,
            session.request(
                method, actual_url, headers=headers, allow_redirects=True, **options
            ) as response,
        ):
            if response.status != 304 and not 200 <= response.status < 300:
                raise failures.from_status(actual_url, response.status, response.reason or "")
            content = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                content += chunk
                if len(content) > limit_bytes:
                    raise FetchError(
                        f'"{actual_url}" is larger than {limit_bytes} bytes',
                        FetchFailure.TOO_LARGE,
                    )
            return SmallResponse(
                response.status,
                bytes(content),
                response.headers.get("ETag", ""),
                response.headers.get("Last-Modified", ""),
            )
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise failures.from_connection(actual_url, error) from error
