# SPDX-License-Identifier: Apache-2.0
"""A client that sends each request exactly once.

Client libraries repeat idempotent requests on a closed connection. A repeated PUT could then be
refused although its first copy was written, and the record would be wrong. Here a request that
gets no complete response raises `Cut`: its outcome is unknown.

Certificates are not verified: clocks of the server jump, this process has the real time.
"""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

REQUEST_S = 20.0
"""A server that is paused or out of memory may not answer; this is no measurement."""
READ_LIMIT = 1 << 24


class Cut(Exception):
    """There was no complete response."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server listens, and the token of its administrator."""

    host: str
    port: int
    token: str

    @classmethod
    def read(cls, kubeconfig: Path) -> "Access":
        """Read the first cluster and the token of the current context. Raises Cut."""
        try:
            config = yaml.safe_load(kubeconfig.read_text())
            url = urlsplit(config["clusters"][0]["cluster"]["server"])
            current = next(
                c["context"] for c in config["contexts"] if c["name"] == config["current-context"]
            )
            user = next(u["user"] for u in config["users"] if u["name"] == current["user"])
            return cls(url.hostname or "127.0.0.1", url.port or 443, user["token"])
        except (OSError, yaml.YAMLError, TypeError, KeyError, StopIteration) as error:
            raise Cut(f"no kubeconfig: {error!r}") from None


class Connection:
    """One keep-alive connection, opened again after each fault."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._access: Access | None = None

    async def request(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> tuple[int, Any]:
        """Return status and decoded body of the response. Raises Cut."""
        try:
            async with asyncio.timeout(REQUEST_S):
                reader = await self._send(method, path, body, media)
                status, length = await _read_head(reader)
                data = b"".join([piece async for piece in _pieces(reader, length)])
                return status, json.loads(data) if data.startswith(b"{") else data.decode()
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            self.close()
            raise Cut(repr(error)) from None

    async def lines(self, path: str) -> AsyncGenerator[Any]:
        """Yield the objects of a watch until it ends. Raises Cut, or RuntimeError(status)."""
        async with contextlib.aclosing(self.raw_lines(path)) as raw:
            async for line in raw:
                yield json.loads(line)

    async def raw_lines(self, path: str) -> AsyncGenerator[bytes]:
        """Yield the lines of a watch until it ends. Raises Cut, or RuntimeError(status)."""
        try:
            async with asyncio.timeout(REQUEST_S):
                reader = await self._send("GET", path, None, "application/json")
                status, length = await _read_head(reader)
            if status != 200:
                raise RuntimeError(status)
            rest = b""
            async for piece in _pieces(reader, length):
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    yield line
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            raise Cut(repr(error)) from None
        finally:
            self.close()

    def close(self) -> None:
        """Drop the connection."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _send(self, method: str, path: str, body: Any, media: str) -> asyncio.StreamReader:
        if self._streams is None:
            tls = ssl.create_default_context()
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
            self._access = Access.read(self._kubeconfig)
            self._streams = await asyncio.open_connection(
                self._access.host, self._access.port, ssl=tls, limit=READ_LIMIT
            )
        assert self._access is not None
        reader, writer = self._streams
        data = b"" if body is None else json.dumps(body).encode()
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: {self._access.host}:{self._access.port}\r\n"
            f"Authorization: Bearer {self._access.token}\r\nContent-Type: {media}\r\n"
            f"Content-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        await writer.drain()
        return reader


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, int | None]:
    """Return the status and the length of a response; None for chunks."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length: int | None = None
    for line in head.split("\r\n"):
        if line.startswith("content-length:"):
            length = int(line.partition(":")[2])
    return int(head.split()[1]), length


async def _pieces(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    if length is not None:
        yield await reader.readexactly(length)
        return
    while True:
        size = int(await reader.readuntil(b"\r\n"), 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            return
        yield data[:-2]


async def cancel(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel tasks and wait for their end."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
