# SPDX-License-Identifier: Apache-2.0
"""Paths of the API about the daemon itself, for administrators.

GET /service/logs                                 which logs there are
GET /service/logs/LOG?tail=1000&follow=false      the text of one
GET /service/bundle                               the support bundle
GET /service/tools                                the tools, and which are installed
"""

import asyncio
import contextlib
import tempfile
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

from rdd.api.errors import BadRequest, InternalError, MethodNotAllowed, NotFound
from rdd.api.types import Object
from rdd.apiserver.http import responses
from rdd.apiserver.http.request import AnyResponse, Request, ResponseWriter, Stream
from rdd.apiserver.routes import Routes
from rdd.client import Client
from rdd.host.errors import HostError
from rdd.host.log_files import find_log, is_tail, list_logs, read_log
from rdd.http.responses import TEXT
from rdd.instance import Instance
from rdd.kinds.urlmonitor import URLMonitor
from rdd.runtime import resource_of

LOGS_PATH = "/service/logs"
BUNDLE_PATH = "/service/bundle"
TOOLS_PATH = "/service/tools"
_BOOLEANS = {"": False, "false": False, "0": False, "true": True, "1": True}
_CHUNK_BYTES = 256 * 1024


class ServiceEndpoints:
    """The handlers of these paths."""

    def __init__(
        self,
        instance: Instance,
        routes: Routes,
        client: Client,
        *,
        version: str,
        variables: Mapping[str, str],
    ) -> None:
        self._instance = instance
        self._client = client
        self._version = version
        self._variables = variables
        routes.paths[LOGS_PATH] = self._list
        routes.prefixes.append((f"{LOGS_PATH}/", self._log))
        routes.paths[BUNDLE_PATH] = self._bundle
        routes.paths[TOOLS_PATH] = self._tools

    async def _list(self, request: Request) -> AnyResponse:
        _check_method(request)
        found = await asyncio.to_thread(list_logs, self._instance.log_dir)
        return responses.value(request, {"logs": found})

    async def _log(self, request: Request) -> AnyResponse:
        _check_method(request)
        name = request.path.removeprefix(f"{LOGS_PATH}/")
        path = find_log(self._instance.log_dir, name)
        if path is None:
            raise NotFound(f'log "{name[:100]}" not found')
        tail, follow = request.first("tail"), _BOOLEANS.get(request.first("follow"))
        if follow is None:
            raise BadRequest("follow: true or false is required")
        if not is_tail(tail):
            raise BadRequest("tail: a number of lines or all is required")
        lines = int(tail) if tail.isdigit() else None

        async def produce(writer: ResponseWriter) -> None:
            await _until_closed(writer, _copy(path, lines, follow, writer))

        return Stream(produce, content_type=TEXT)

    async def _tools(self, request: Request) -> AnyResponse:
        _check_method(request)
        try:
            listed = await self._client.list(resource_of(URLMonitor))
        except NotFound:
            monitors: list[Object] = []  # the kind is not served
        else:
            monitors = list(listed.items)
        found = await asyncio.to_thread(self._described, monitors)
        return responses.value(request, {"tools": found})

    def _described(self, monitors: list[Object]) -> list[Object]:
        """Return all tools. Blocking."""
        from rdd.toolbox.catalogue import Catalogue
        from rdd.toolbox.installation import Toolbox
        from rdd.toolbox.listing import described, tools_of, with_lists

        catalogue = with_lists(tools_of(Catalogue.shipped()), monitors)
        return described(catalogue, Toolbox(self._instance.tools_dir))

    async def _bundle(self, request: Request) -> AnyResponse:
        _check_method(request)
        name = f"{self._instance.name}-support.tar.gz"
        headers = [("Content-Disposition", f'attachment; filename="{name}"')]
        try:
            directory = await asyncio.to_thread(self._write_bundle)
        except OSError as error:
            raise InternalError.because(f"the bundle was not written: {error.strerror}") from error

        async def produce(writer: ResponseWriter) -> None:
            with directory as folder, (Path(folder) / "bundle").open("rb") as file:
                while data := await asyncio.to_thread(file.read, _CHUNK_BYTES):
                    await writer.write(data)

        return Stream(produce, content_type="application/gzip", headers=headers)

    def _write_bundle(self) -> "tempfile.TemporaryDirectory[str]":
        """Write the bundle into a directory of its own, which is removed afterwards."""
        from rdd.daemon.service import record
        from rdd.daemon.support.bundle import Bundle

        daemon = record.read(self._instance)
        status: dict[str, Any] = {"name": self._instance.name, "started": daemon is not None}
        bundle = Bundle(
            self._instance,
            version={"version": self._version},
            status=status,
            variables=self._variables,
        )
        directory = tempfile.TemporaryDirectory(dir=self._instance.dir, prefix=".bundle-")
        try:
            bundle.write(Path(directory.name) / "bundle")
        except BaseException:
            directory.cleanup()
            raise
        return directory


def _check_method(request: Request) -> None:
    if request.method not in ("GET", "HEAD"):
        raise MethodNotAllowed()


async def _copy(path: Path, lines: int | None, follow: bool, writer: ResponseWriter) -> None:
    try:
        async with contextlib.aclosing(read_log(path, tail=lines, follow=follow)) as pieces:
            async for piece in pieces:
                await writer.write(piece)
    except HostError as error:
        raise ConnectionAbortedError(str(error)) from error


async def _until_closed(writer: ResponseWriter, work: Awaitable[None]) -> None:
    """Wait for some work, or until the client disconnects."""
    copying = asyncio.ensure_future(work)
    closed = asyncio.ensure_future(writer.closed())
    try:
        await asyncio.wait({copying, closed}, return_when=asyncio.FIRST_COMPLETED)
        if copying.done():
            copying.result()
    finally:
        copying.cancel()
        closed.cancel()
        await asyncio.gather(copying, closed, return_exceptions=True)
