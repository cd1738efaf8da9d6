# SPDX-License-Identifier: Apache-2.0
"""Live figures of containers, shared by all windows.

The engine measures a container once a second while anybody reads its statistics. One stream
per container serves all subscriptions and ends with the last one; a container that no page
shows costs nothing. The figures of one second are one message per subscription.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from rdd.apiserver.http.listener import RequestApi
from rdd.apiserver.http.request import Hijack, Request, User
from rdd.dashboard.local_exchange import LocalExchange
from rdd.dashboard.permission import check_permission

log = logging.getLogger("rdd.dashboard")

PREFIX = "/passthrough/engine/stats/"
_INTERVAL_S = 1.0
_RETRY_S = 5.0
"""A container that does not run, or an engine that is away, is asked again after this time."""

Send = Callable[[float, dict[str, Any]], None]


@dataclass(eq=False, slots=True)
class _Stream:
    """The statistics of one container."""

    task: asyncio.Task[None]
    readers: int = 0
    figures: dict[str, Any] | None = None
    number: int = 0
    """Counts the samples."""


@dataclass(eq=False, slots=True)
class _Subscription:
    names: Sequence[str]
    sent: dict[str, int] = field(default_factory=dict)


class ContainerStats:
    """The streams that are in use."""

    def __init__(self, api: RequestApi) -> None:
        self._api = api
        self._streams: dict[str, _Stream] = {}

    async def follow(self, user: User, names: Sequence[str], send: Send) -> None:
        """Call `send` at most once a second, until cancelled. Raises ApiError."""
        names = list(dict.fromkeys(names))
        for name in names or ["-"]:
            await check_permission(self._api, user, _path(name))
        subscription = _Subscription(names)
        for name in names:
            self._open(user, name)
        try:
            while True:
                found = self._collect(subscription)
                if found:
                    send(time.time(), found)
                await asyncio.sleep(_INTERVAL_S)
        finally:
            for name in names:
                self._release(name)

    def _open(self, user: User, name: str) -> None:
        stream = self._streams.get(name)
        if stream is None:
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._read(user, name), name="rdd-dashboard-stats")
            stream = self._streams[name] = _Stream(task)
        stream.readers += 1

    def _release(self, name: str) -> None:
        stream = self._streams[name]
        stream.readers -= 1
        if not stream.readers:
            stream.task.cancel()
            del self._streams[name]

    def _collect(self, subscription: _Subscription) -> dict[str, Any]:
        """Return the figures that this subscription has not sent."""
        found = {}
        for name in subscription.names:
            stream = self._streams[name]
            if stream.figures is not None and subscription.sent.get(name) != stream.number:
                subscription.sent[name] = stream.number
                found[name] = stream.figures
        return found

    async def _read(self, user: User, name: str) -> None:
        while True:
            try:
                await self._read_once(user, name)
            except (ConnectionError, ValueError, KeyError, TypeError) as error:
                log.debug("no statistics of %s: %s", name, error)
            except Exception:
                log.exception("no statistics of %s", name)
            await asyncio.sleep(_RETRY_S)

    async def _read_once(self, user: User, name: str) -> None:
        path = _path(name)
        answer = await self._api.handle(Request("GET", path, headers={}, user=user))
        if not isinstance(answer, Hijack):
            return
        exchange = LocalExchange(f"{path}?stream=true")
        serving = asyncio.ensure_future(answer.serve(exchange))
        serving.add_done_callback(lambda _: exchange.abort())
        try:
            pending = b""
            while piece := await exchange.read():
                if exchange.status != 200:
                    return
                *lines, pending = (pending + piece).split(b"\n")
                for line in filter(None, lines):
                    self._take(name, orjson.loads(line))
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    def _take(self, name: str, sample: Any) -> None:
        stream = self._streams.get(name)
        figures = _figures(sample)
        if stream is not None and figures is not None:
            stream.figures = figures
            stream.number += 1


def _path(name: str) -> str:
    return PREFIX + quote(name, safe="")


def _figures(sample: dict[str, Any]) -> dict[str, Any] | None:
    """Return the figures of a sample of the engine; None of one without a predecessor."""
    cpu, before = sample.get("cpu_stats") or {}, sample.get("precpu_stats") or {}
    memory = sample.get("memory_stats") or {}
    if "usage" not in memory:
        return None  # the container does not run
    used = cpu["cpu_usage"]["total_usage"] - before["cpu_usage"]["total_usage"]
    of = (cpu.get("system_cpu_usage") or 0) - (before.get("system_cpu_usage") or 0)
    cores = cpu.get("online_cpus") or len(cpu["cpu_usage"].get("percpu_usage") or ()) or 1
    if not before.get("system_cpu_usage"):
        return None
    details = memory.get("stats") or {}
    # As `docker stats`: without pages of files that can be dropped at once.
    cache = details.get("inactive_file", details.get("total_inactive_file", 0))
    networks = (sample.get("networks") or {}).values()
    blocks = (sample.get("blkio_stats") or {}).get("io_service_bytes_recursive") or ()
    return {
        "cpu": round(100.0 * cores * used / of, 2) if of > 0 and used > 0 else 0.0,
        "memory": max(memory["usage"] - cache, 0),
        "memoryLimit": memory.get("limit", 0),
        "networkRx": sum(each.get("rx_bytes", 0) for each in networks),
        "networkTx": sum(each.get("tx_bytes", 0) for each in networks),
        "blockRead": _blocks(blocks, "read"),
        "blockWrite": _blocks(blocks, "write"),
        "pids": (sample.get("pids_stats") or {}).get("current", 0),
    }


def _blocks(blocks: Any, operation: str) -> int:
    return sum(each.get("value", 0) for each in blocks if each.get("op", "").lower() == operation)
