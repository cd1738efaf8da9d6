# SPDX-License-Identifier: Apache-2.0
"""A watch of the API as a subscription of the WebSocket.

The writer of the watch is handed the bytes that the API server keeps and joins them to
messages, so an object is neither parsed nor encoded for a page. What happens in one cycle of
the event loop is one message. A client that does not read makes the watch lag as any other
watcher (`apiserver/state/watchers.py`), which bounds what waits and ends it with 410.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import orjson

from rdd.api import errors
from rdd.apiserver.http.listener import RequestApi
from rdd.apiserver.http.request import Request, Response, Stream, User
from rdd.apiserver.state.watchers import MAX_BEHIND_BYTES
from rdd.http.exchange import parse_query

log = logging.getLogger("rdd.dashboard")

SYNC_BYTES = 256 * 1024
_MAX_DIGITS = 20
_FOREVER_S = 10 * 365 * 24 * 3600
_RESERVED = (
    "watch", "resourceVersion", "resourceVersionMatch", "sendInitialEvents",
    "allowWatchBookmarks", "timeoutSeconds", "limit", "continue",
)  # fmt: skip


class Outlet:
    """Where messages of a subscription go."""

    def __init__(
        self, push: Callable[[bytes], None], drain: Callable[[], Any], buffered: Callable[[], int]
    ) -> None:
        self.push = push
        self.drain = drain
        self.buffered = buffered


async def watch(
    api: RequestApi, user: User, id_: int, message: dict[str, Any], outlet: Outlet
) -> None:
    """Send the objects of a path and their changes until the watch ends. Raises ApiError."""
    path, query = message.get("path"), message.get("query", "")
    version = message.get("resourceVersion", "")
    if not isinstance(path, str) or not path.startswith(("/api/", "/apis/")):
        raise errors.BadRequest("path: a path of the API below /api/ or /apis/ is required")
    if not isinstance(query, str) or not isinstance(version, str):
        raise errors.BadRequest("query and resourceVersion must be text")
    options = {name: values for name, values in parse_query(query).items() if name}
    for name in _RESERVED:
        if name in options:
            raise errors.BadRequest(f"query: {name} cannot be set")
    options["watch"] = ["true"]
    options["timeoutSeconds"] = [str(_FOREVER_S)]
    is_resumed = version not in ("", "0")
    if is_resumed:
        await _check_version(api, user, path, options, version)
        options["resourceVersion"] = [version]
    else:
        options["sendInitialEvents"] = ["true"]
        options["resourceVersionMatch"] = ["NotOlderThan"]
        options["allowWatchBookmarks"] = ["true"]
    request = Request("GET", path, query=options, headers={}, user=user)
    if request.info.verb != "watch":
        raise errors.BadRequest(
            "path: the path of a collection is required; "
            "select one object with query fieldSelector=metadata.name=…"
        )
    answer = await api.handle(request)
    if not isinstance(answer, Stream):
        raise _failure(answer.body)
    writer = _Writer(id_, outlet, is_syncing=not is_resumed)
    await answer.produce(writer)
    writer.flush()
    if writer.failure is not None:
        raise writer.failure


async def _check_version(
    api: RequestApi, user: User, path: str, options: dict[str, list[str]], version: str
) -> None:
    """Refuse a version that this store has not reached. Raises ApiError.

    A page may have been connected to a store that was replaced by a backup; it would wait for
    changes that it takes for old ones.
    """
    if not (version.isascii() and version.isdigit()) or len(version) > _MAX_DIGITS:
        raise errors.BadRequest("resourceVersion: a number is required")
    query = {**options, "watch": ["false"], "limit": ["1"]}
    answer = await api.handle(Request("GET", path, query=query, headers={}, user=user))
    if not isinstance(answer, Response) or answer.status != 200:
        return  # the watch itself reports it
    present = orjson.loads(answer.body)["metadata"].get("resourceVersion", "0")
    if int(version) > int(present):
        raise errors.Expired(f"the resource version {version} is from another store")


class _Writer:
    """The writer of a watch: collects events into messages."""

    def __init__(self, id_: int, outlet: Outlet, *, is_syncing: bool) -> None:
        self._id = id_
        self._outlet = outlet
        self._is_syncing = is_syncing
        self._parts: list[bytes] = []
        self._size = 0
        self._last = b""
        self._is_scheduled = False
        self.failure: errors.ApiError | None = None

    async def write(self, data: bytes) -> None:
        """Take lines, and wait until the client can receive more."""
        self._take(data)
        await self._outlet.drain()

    def push(self, data: bytes) -> bool:
        """Take lines without waiting."""
        self._take(data)
        return self._outlet.buffered() <= MAX_BEHIND_BYTES

    def push_event(self, type_: str, head: bytes, body: bytes) -> bool:
        """Take an event without waiting; return whether the client reads fast enough."""
        self._last = head + body
        if self._is_syncing:
            self._parts.append(self._last)
        else:
            self._parts.append(b'{"type":"%b","object":%b}' % (type_.encode(), self._last))
        self._size += len(self._last)
        if self._is_syncing:
            if self._size >= SYNC_BYTES:
                self._send_items()
        elif not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self.flush)
        return self._outlet.buffered() + self._size <= MAX_BEHIND_BYTES

    async def closed(self) -> None:
        """Wait for ever: the end of the socket cancels the subscription."""
        await asyncio.get_running_loop().create_future()

    def flush(self) -> None:
        """Send the collected events."""
        self._is_scheduled = False
        if self._is_syncing or not self._parts:
            return
        version = orjson.loads(self._last)["metadata"]["resourceVersion"]
        self._send(b"EVENTS", b"events", version)

    def _take(self, data: bytes) -> None:
        """Take whole lines: bookmarks and errors; events come through `push_event`."""
        for line in filter(None, data.split(b"\n")):
            event = orjson.loads(line)
            if event["type"] == "ERROR":
                self.failure = errors.from_status(event["object"])
            elif event["type"] == "BOOKMARK" and self._is_syncing:
                self._is_syncing = False
                self._send(b"SYNC", b"items", event["object"]["metadata"]["resourceVersion"])

    def _send_items(self) -> None:
        self._send(b"SYNC", b"items", "")

    def _send(self, type_: bytes, member: bytes, version: str) -> None:
        tail = b'"more":true}'
        if version:
            more = b',"more":false' if type_ == b"SYNC" else b""
            tail = b'"resourceVersion":"%b"%b}' % (version.encode(), more)
        parts, self._parts, self._size = self._parts, [], 0
        self._outlet.push(
            b'{"id":%d,"type":"%b","%b":[%b],%b' % (self._id, type_, member, b",".join(parts), tail)
        )


def _failure(body: bytes) -> errors.ApiError:
    try:
        return errors.from_status(orjson.loads(body))
    except (orjson.JSONDecodeError, TypeError):
        return errors.NotFound("the path does not exist")
