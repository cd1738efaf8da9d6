# SPDX-License-Identifier: Apache-2.0
"""Endpoints for files of containers and volumes.

GET /passthrough/engine/files/<id>?path=/etc              a directory as JSON
GET /passthrough/engine/archive/<id>?path=/etc/hosts      a file, or a directory as tar
GET /passthrough/engine/volume-files/<volume>?path=/
GET /passthrough/engine/volume-archive/<volume>?path=/    also the backup of a volume
PUT /passthrough/engine/volume-archive/<volume>           restore: unpacks a tar
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import orjson

from rdd.api import timestamps
from rdd.controllers.containers.engine.endpoints import (
    WRITE_S,
    EndpointError,
    EngineHandle,
    check_method,
    container_id,
    endpoint,
    engine_failures,
)
from rdd.engine import Docker, EngineFailure
from rdd.engine import files as engine_files
from rdd.engine.files import Place, mode_text
from rdd.engine.tar_listing import TarEntry
from rdd.http.body import BodyError
from rdd.http.exchange import Exchange
from rdd.http.responses import Response
from rdd.runtime.passthrough import Handler

_MAX_PATH = 4096
_MAX_TIME = 253_402_300_799  # the year 9999


class FileEndpoints:
    """Browse, download, back up and restore."""

    def __init__(self, handle: EngineHandle) -> None:
        self._handle = handle
        self.handlers: dict[str, Handler] = {
            "files": self.files,
            "archive": self.archive,
            "volume-files": self.volume_files,
            "volume-archive": self.volume_archive,
        }

    @endpoint
    async def files(self, exchange: Exchange, rest: str) -> Response | None:
        """List a directory of a container."""
        check_method(exchange, "GET")
        place = Place(container_id(rest))
        return await _listing(self._handle.get(), place, _path(exchange))

    @endpoint
    async def archive(self, exchange: Exchange, rest: str) -> Response | None:
        """Send a file or directory of a container."""
        check_method(exchange, "GET")
        await _send(exchange, self._handle.get(), Place(container_id(rest)))
        return None

    @endpoint
    async def volume_files(self, exchange: Exchange, rest: str) -> Response | None:
        """List a directory of a volume."""
        check_method(exchange, "GET")
        docker = self._handle.get()
        async with _volume(docker, rest) as place:
            return await _listing(docker, place, _path(exchange))

    @endpoint
    async def volume_archive(self, exchange: Exchange, rest: str) -> Response | None:
        """Send a file or directory of a volume, or restore a backup."""
        check_method(exchange, "GET", "PUT")
        docker = self._handle.get()
        if exchange.method != "PUT":
            async with _volume(docker, rest) as place:
                await _send(exchange, docker, place)
            return None
        if not exchange.body.exists:
            raise EndpointError(400, "the body must be a tar archive")
        async with _volume(docker, rest, is_written=True) as place:
            try:
                with engine_failures():
                    await engine_files.restore(docker, place, aiter(exchange.body))
            except BodyError as error:
                raise EndpointError(400, f"the archive is incomplete: {error}") from error
        return Response(200, orjson.dumps({"restored": rest.strip("/")}))


@asynccontextmanager
async def _volume(
    docker: Docker, rest: str, *, is_written: bool = False
) -> AsyncGenerator[Place, None]:
    name = rest.strip("/")
    if not name or "/" in name:
        raise EndpointError(400, f"invalid volume name {name!r}")
    with engine_failures():
        async with engine_files.of_volume(docker, name, is_written=is_written) as place:
            yield place


def _path(exchange: Exchange) -> str:
    path = exchange.first("path") or "/"
    if not path.startswith("/") or "\0" in path or len(path) > _MAX_PATH:
        raise EndpointError(400, f"invalid path {path[:100]!r}: it must be absolute")
    return path


async def _listing(docker: Docker, place: Place, path: str) -> Response:
    with engine_failures():
        found = await engine_files.list_directory(docker, place, path)
    entries = sorted(found.entries, key=lambda e: (e.type != "directory", e.name))
    value = {
        "path": path,
        "entries": [_entry(entry) for entry in entries],
        "truncated": found.is_truncated,
    }
    return Response(200, orjson.dumps(value), headers=[("Cache-Control", "no-store")])


def _entry(entry: TarEntry) -> dict[str, Any]:
    is_file = entry.type in ("file", "hardlink")
    shown: dict[str, Any] = {
        "name": _printable(entry.name),
        "type": "file" if is_file else entry.type,
        "size": entry.size,
        "mode": mode_text(entry),
        "modified": timestamps.text(int(min(max(entry.modified, 0), _MAX_TIME))),
    }
    if entry.type == "symlink":
        shown["target"] = _printable(entry.target)
    return shown


def _printable(text: str) -> str:
    """Return a name as JSON can carry it; bytes that are no UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def _send(exchange: Exchange, docker: Docker, place: Place) -> None:
    path, form = _path(exchange), exchange.first("format")
    if form not in ("", "tar"):
        raise EndpointError(400, f"invalid value {form!r} for format: tar or nothing")
    try:
        async with engine_files.download(docker, place, path, as_tar=form == "tar") as found:
            media = "application/x-tar" if found.is_tar else "application/octet-stream"
            headers = [
                ("Content-Type", media),
                ("Content-Disposition", f"attachment; filename*=UTF-8''{quote(found.name)}"),
                ("Cache-Control", "no-store"),
            ]
            exchange.start(200, headers, length=found.length)
            if exchange.method == "HEAD":
                exchange.finish()
                return
            async for piece in found.pieces:
                exchange.write(piece)
                async with asyncio.timeout(WRITE_S):
                    await exchange.drain()
            exchange.finish()
    except (EngineFailure, TimeoutError) as error:
        if exchange.has_started:
            exchange.abort()
        elif isinstance(error, EngineFailure):
            raise EndpointError.of(error) from error
