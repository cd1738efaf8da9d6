# SPDX-License-Identifier: Apache-2.0
"""Reading the bodies of requests to the API.

A body is read after its request is authorised, up to a size and at a minimum rate. A
compressed body is unpacked in a worker thread and never beyond the same size: a few kilobytes
can expand to gigabytes.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from rdd.api import errors
from rdd.apiserver.http.body_account import BodyAccount
from rdd.apiserver.http.limits import MAX_BODY_BYTES
from rdd.apiserver.http.request import Request
from rdd.http.body import BodyIncomplete, BodyPace, BodyTimeout, BodyTooLarge
from rdd.http.exchange import Exchange

PACE = BodyPace()
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Window bits of zlib by coding: gzip and zlib formats."""


def loader(
    exchange: Exchange, request: Request, account: BodyAccount
) -> Callable[[], Awaitable[bytes]]:
    """Return the function that reads the body of an exchange. It raises an ApiError."""

    async def load() -> bytes:
        coding = exchange.headers.get("Content-Encoding").strip().lower()
        if coding not in ("", "identity") and coding not in _WINDOWS:
            raise errors.UnsupportedMediaType(f"unsupported Content-Encoding {coding[:64]!r}")
        if exchange.body.is_complete:
            data = await read(exchange)
        else:
            data = await _read_counted(exchange, request, account)
        return await unpack(data, coding) if coding in _WINDOWS else data

    return load


async def _read_counted(exchange: Exchange, request: Request, account: BodyAccount) -> bytes:
    user, connection = request.user, exchange.connection_key
    size = account.enter(exchange.body.length, user, connection)
    try:
        return await read(exchange)
    finally:
        account.leave(size, user, connection)


async def read(exchange: Exchange) -> bytes:
    """Return the body of an exchange as it was sent."""
    try:
        return await exchange.body.read(limit=MAX_BODY_BYTES, pace=PACE)
    except BodyTooLarge:
        raise _too_large() from None
    except BodyTimeout:
        raise errors.ApiError(
            "the body of the request did not arrive in time", code=408, reason="Timeout"
        ) from None
    except BodyIncomplete as error:
        raise errors.BadRequest(f"the body of the request is incomplete: {error}") from None


@cache
def _executor() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="rdd-gunzip")


async def unpack(data: bytes, coding: str) -> bytes:
    """Return a compressed body unpacked."""
    loop = asyncio.get_running_loop()
    try:
        return await loop.run_in_executor(_executor(), _unpack, data, _WINDOWS[coding])
    except zlib.error as error:
        raise errors.BadRequest(f"the body is not valid {coding}: {error}") from None


def _unpack(data: bytes, window: int) -> bytes:
    stream = zlib.decompressobj(window)
    unpacked = stream.decompress(data, MAX_BODY_BYTES + 1)
    if len(unpacked) > MAX_BODY_BYTES:
        raise _too_large()
    if not stream.eof:
        raise zlib.error("the data ends before its end marker")
    if stream.unused_data:
        raise zlib.error("data follows the end marker")
    return unpacked


def _too_large() -> errors.RequestEntityTooLarge:
    return errors.RequestEntityTooLarge(
        f"Request entity too large: limit is {MAX_BODY_BYTES}", details={}
    )
