# SPDX-License-Identifier: Apache-2.0
"""The little of Docker's API that a host agent uses: is it there, what runs, what happens.

Asked with HTTP/1.0, so that an answer is its body until the end of the connection, also when it
is a stream of events: no lengths, no chunks, no library.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from urllib.parse import quote

_ANSWER_S = 10.0
_LONGEST_LINE = 1 << 20


class BadAnswer(Exception):
    """The engine answered, but not with what was asked for."""


def quoted(filters: Any) -> str:
    """A filter as it stands in a URL."""
    return quote(json.dumps(filters, separators=(",", ":")), safe="")


async def get(socket: Path, path: str) -> bytes:
    """The body of an answer. Raises OSError, BadAnswer."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await _ask(socket, path)
            try:
                return await reader.read()
            finally:
                writer.close()
    except TimeoutError as error:  # one of OSError, but without a word
        raise BadAnswer(f"{path}: no answer within {_ANSWER_S:g} s") from error


async def lines(socket: Path, path: str) -> AsyncGenerator[bytes, None]:
    """The lines of an answer as they come, until the engine ends it. Raises OSError, BadAnswer."""
    reader, writer = await _ask(socket, path)
    try:
        while line := await reader.readline():
            yield line
    except ValueError as error:
        raise BadAnswer(f"{path}: {error}") from error
    finally:
        writer.close()


async def _ask(socket: Path, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_unix_connection(str(socket), limit=_LONGEST_LINE)
    try:
        writer.write(f"GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
    except (EOFError, asyncio.LimitOverrunError) as error:
        writer.close()
        raise BadAnswer(f"{path}: {error}") from error
    except BaseException:
        writer.close()
        raise
    status = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(status) < 2 or status[1] != b"200":
        writer.close()
        raise BadAnswer(f"{path}: {status[-1].decode('latin-1')}")
    return reader, writer
