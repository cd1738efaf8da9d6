# SPDX-License-Identifier: Apache-2.0
"""`/ws`: the subscriptions of one page over one WebSocket.

Each subscription is a task and ends with an ERROR or END message. There are no pings: both ends
are on this machine, so a lost peer is a closed connection, and an idle page costs no wake-up.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import orjson

from rdd.api import errors, names
from rdd.apiserver.http.listener import RequestApi
from rdd.apiserver.http.request import User
from rdd.dashboard.container_stats import ContainerStats
from rdd.dashboard.host_stats import HostStats
from rdd.dashboard.permission import check_permission
from rdd.dashboard.watching import Outlet, watch
from rdd.http.websocket import Opcode, WebSocket

log = logging.getLogger("rdd.dashboard")

MAX_SUBSCRIPTIONS = 64
MAX_WAITING_BYTES = 8 * 1024 * 1024
MAX_NAMES = 100
_MAX_ID = 2**53
_MALFORMED = 1003
_TOO_SLOW = 1013


class DashboardSocket:
    """The WebSocket of one page."""

    def __init__(
        self,
        socket: WebSocket,
        buffered: Callable[[], int],
        api: RequestApi,
        user: User,
        container_stats: ContainerStats,
        host_stats: HostStats,
    ) -> None:
        self._socket = socket
        self._buffered = buffered
        self._api = api
        self._user = user
        self._container_stats = container_stats
        self._host_stats = host_stats
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._outlet = Outlet(self._push, socket.drain, buffered)

    async def run(self) -> None:
        """Serve the page until it disconnects."""
        try:
            while (message := await self._socket.receive()).type is not Opcode.CLOSE:
                if message.type is not Opcode.TEXT or not self._accept(message.data):
                    await self._socket.close(_MALFORMED, "malformed message")
                    return
        finally:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, data: bytes) -> bool:
        """Begin or end a subscription; return False if the message is malformed."""
        try:
            message = orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        id_ = message.get("id") if isinstance(message, dict) else None
        if not isinstance(id_, int) or isinstance(id_, bool) or not 0 <= id_ < _MAX_ID:
            return False
        operation = message.get("op")
        running = self._tasks.get(id_)
        if operation == "cancel":
            if running is not None:
                running.cancel()
            else:
                self._push_value({"id": id_, "type": "END"})
            return True
        if running is not None and operation == "stats":
            del self._tasks[id_]  # its names are replaced; it ends without a message
            running.cancel()
        elif running is not None:
            return False
        self._begin(id_, operation, message)
        return True

    def _begin(self, id_: int, operation: object, message: dict[str, Any]) -> None:
        work: Coroutine[Any, Any, None]
        if len(self._tasks) >= MAX_SUBSCRIPTIONS:
            work = _refused(
                errors.TooManyRequests(f"at most {MAX_SUBSCRIPTIONS} subscriptions are allowed")
            )
        elif operation == "watch":
            work = watch(self._api, self._user, id_, message, self._outlet)
        elif operation == "stats":
            work = self._follow_containers(id_, message.get("names"))
        elif operation == "host":
            work = self._follow_host(id_)
        else:
            work = _refused(errors.BadRequest("op: watch, stats, host or cancel is required"))
        task = asyncio.get_running_loop().create_task(work, name="rdd-dashboard-subscription")
        self._tasks[id_] = task
        task.add_done_callback(lambda done: self._ended(id_, done))

    def _ended(self, id_: int, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(id_) is not task:
            if not task.cancelled():
                task.exception()
            return
        del self._tasks[id_]
        failure = None if task.cancelled() else task.exception()
        if failure is None:
            self._push_value({"id": id_, "type": "END"})
        elif isinstance(failure, errors.ApiError):
            self._push_value({"id": id_, "type": "ERROR", "status": failure.to_status()})
        elif not isinstance(failure, ConnectionError):
            log.error("a subscription of the dashboard failed", exc_info=failure)
            status = errors.InternalError.because("the subscription failed").to_status()
            self._push_value({"id": id_, "type": "ERROR", "status": status})

    async def _follow_containers(self, id_: int, ids: object) -> None:
        if (
            not isinstance(ids, list)
            or not all(isinstance(each, str) and each for each in ids)
            or len(ids) > MAX_NAMES
        ):
            raise errors.BadRequest(f"names: a list of at most {MAX_NAMES} container IDs")

        def send(time_s: float, items: dict[str, Any]) -> None:
            self._push_value({"id": id_, "type": "STATS", "time": time_s, "items": items})

        await self._container_stats.follow(self._user, ids, send)

    async def _follow_host(self, id_: int) -> None:
        await check_permission(self._api, self._user, names.HOST_STATS_PATH)

        def send(value: dict[str, Any]) -> None:
            self._push_value({"id": id_, "type": "HOST", **value})

        await self._host_stats.follow(send)

    def _push_value(self, value: object) -> None:
        self._push(orjson.dumps(value))

    def _push(self, text: bytes) -> None:
        """Send a message; disconnect a page that does not read."""
        if self._buffered() > MAX_WAITING_BYTES:
            if self._closing is None:
                self._closing = asyncio.get_running_loop().create_task(
                    self._socket.close(_TOO_SLOW, "the page does not read")
                )
            return
        self._socket.push(text)


async def _refused(error: errors.ApiError) -> None:
    raise error
