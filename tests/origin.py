# SPDX-License-Identifier: Apache-2.0
"""A server of files with configurable failures, for tests of everything that is fetched."""

import asyncio
import hashlib
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

CONTENT = os.urandom(300_000) + bytes(2_000_000) + os.urandom(100_000)
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Origin:
    """One file, at every path; `texts` has further ones."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.base = ""
        self.url = ""
        self.requests: list[str] = []
        """Method and range of each request."""
        self.paths: list[str] = []
        self.texts: dict[str, str] = {}
        """Small files by path."""
        self.cut_after = 0
        """Close the connection after so many bytes, once."""
        self.status = 200
        self.redirect = ""
        self.etag = '"one"'
        self.has_ranges = True
        self.gate: asyncio.Event | None = None
        """Wait for it after the first 100,000 bytes."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.headers.get('Range', '')}".strip())
        self.paths.append(request.path)
        if self.status != 200:
            return web.Response(status=self.status)
        if request.path in self.texts:
            return web.Response(text=self.texts[request.path])
        if self.redirect and request.path != self.redirect:
            return web.Response(status=302, headers={"Location": self.redirect})
        return await self._send(request)

    async def _send(self, request: web.Request) -> web.StreamResponse:
        if self.etag and request.headers.get("If-None-Match") == self.etag:
            return web.Response(status=304, headers={"ETag": self.etag})
        start = 0
        wanted_range = request.headers.get("Range") if self.has_ranges else None
        if wanted_range and request.headers.get("If-Range", self.etag) == self.etag:
            start = int(wanted_range.removeprefix("bytes=").rstrip("-"))
        body = self.content[start:]
        response = web.StreamResponse(status=206 if start else 200)
        if start:
            size = len(self.content)
            response.headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
        response.content_length = len(body)
        if self.etag:
            response.headers["ETag"] = self.etag
        await response.prepare(request)
        if request.method == "HEAD":
            return response
        if self.cut_after:
            end, self.cut_after = self.cut_after, 0
            await response.write(body[:end])
            assert request.transport is not None
            await asyncio.sleep(0.05)
            request.transport.close()
            return response
        if self.gate is not None:
            await response.write(body[:100_000])
            await self.gate.wait()
            body = body[100_000:]
        await response.write(body)
        return response


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Origin]:
    """Serve an origin on a port of 127.0.0.1."""
    made = Origin()
    app = web.Application()
    app.router.add_route("*", "/{name:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    host, port = runner.addresses[0][:2]
    made.base = f"{'https' if tls else 'http'}://{host}:{port}"
    made.url = f"{made.base}/disk.img"
    yield made
    await runner.cleanup()
