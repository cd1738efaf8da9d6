# SPDX-License-Identifier: Apache-2.0
"""Writers and watchers of the load test.

Each writer has objects of its own, which it replaces, patches, deletes and creates again, and
shares a few with the others, where updates may conflict. Each watcher reads one namespace; it
must receive every acknowledged write of it, in order. Some watchers read too slowly: the server
may end them (410), and must not keep what they do not read.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash.machine.wire import Connection, Cut

NAMESPACES = 20
SHARED = 10
"""Objects per namespace that all writers update."""
MERGE = "application/merge-patch+json"
TEXT = "x" * 400
ALLOWED = frozenset((200, 201, 409, 429))
SLOW_READ_S = 0.5
GONE = b'"code":410'


def collection(namespace: int) -> str:
    """Return the path of the ConfigMaps of a namespace."""
    return f"/api/v1/namespaces/load-{namespace}/configmaps"


def config_map(name: str, number: object) -> dict[str, Any]:
    """Return a ConfigMap of about half a kilobyte."""
    return {"metadata": {"name": name}, "data": {"number": str(number), "text": TEXT}}


@dataclass(slots=True)
class Tally:
    """What all clients have observed."""

    statuses: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    latencies_ms: list[float] = field(default_factory=list)
    written: list[int] = field(default_factory=lambda: [0] * NAMESPACES)
    """Acknowledged writes per namespace."""
    ended_slow: int = 0


class Writer:
    """One client with one request at a time, at a steady rate."""

    def __init__(self, number: int, names: list[str], kubeconfig: Path, tally: Tally) -> None:
        self.number = number
        self.namespace = number % NAMESPACES
        self.names = names
        self.tally = tally
        self.choose = random.Random(number)
        self.connection = Connection(kubeconfig)
        self._count = 0

    async def run(self, until: float, every_s: float) -> None:
        """Write until a moment of the monotonic clock."""
        due = time.monotonic() + self.choose.random() * every_s
        while (now := time.monotonic()) < until:
            await asyncio.sleep(max(0.0, due - now))
            due = max(due + every_s, time.monotonic() - every_s)
            try:
                await self._step()
            except Cut as error:
                self.tally.problems.append(f"a writer was cut off: {error}")
        self.connection.close()

    async def _step(self) -> None:
        self._count += 1
        action = self.choose.random()
        name = self.choose.choice(self.names)
        path = collection(self.namespace)
        body = config_map(name, self._count)
        if action < 0.1:
            status, found = await self._timed("GET", f"{path}/shared-{self._count % SHARED}")
            if status == 200:
                # No other writer writes the same: without a change there is no event.
                found["data"]["number"] = f"{self.number}-{self._count}"
                await self._write("PUT", f"{path}/{found['metadata']['name']}", found)
        elif action < 0.2:
            await self._write("DELETE", f"{path}/{name}")
            await self._write("POST", path, body)
        elif action < 0.5:
            patch = {"data": {"number": f"p{self._count}"}}
            await self._write("PATCH", f"{path}/{name}", patch, MERGE)
        else:
            await self._write("PUT", f"{path}/{name}", body)

    async def _write(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> None:
        status, answer = await self._timed(method, path, body, media)
        if status == 429 and method in ("DELETE", "POST"):
            await asyncio.sleep(1)
            await self._write(method, path, body, media)
        elif status < 300:
            self.tally.written[self.namespace] += 1
        elif status not in ALLOWED:
            self.tally.problems.append(f"{method} {path}: {status} {str(answer)[:300]}")

    async def _timed(
        self, method: str, path: str, body: Any = None, media: str = "application/json"
    ) -> tuple[int, Any]:
        began = time.monotonic()
        status, answer = await self.connection.request(method, path, body, media)
        self.tally.latencies_ms.append((time.monotonic() - began) * 1000)
        self.tally.statuses[status] += 1
        return status, answer


class Watcher:
    """One watch of a namespace."""

    def __init__(self, number: int, kubeconfig: Path, tally: Tally, *, is_slow: bool) -> None:
        self.namespace = number % NAMESPACES
        self.number = number
        self.is_slow = is_slow
        self.received = 0
        self.tally = tally
        self._kubeconfig = kubeconfig
        self.opened = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        connection = Connection(self._kubeconfig)
        try:
            path = collection(self.namespace)
            _, found = await connection.request("GET", f"{path}?limit=1")
            version = found["metadata"]["resourceVersion"]
            lines = connection.raw_lines(f"{path}?watch=1&resourceVersion={version}")
            self.opened.set()
            async for line in lines:
                if line.startswith(b'{"type":"ERROR"'):
                    if not (self.is_slow and GONE in line):
                        self.tally.problems.append(f"watcher {self.number}: {line[:300]!r}")
                    break
                self.received += 1
                if self.is_slow:
                    await asyncio.sleep(SLOW_READ_S)
            self._ended("the watch ended")
        except (Cut, RuntimeError) as error:
            self._ended(repr(error))
        finally:
            connection.close()

    def _ended(self, how: str) -> None:
        if self.is_slow:
            self.tally.ended_slow += 1
        else:
            self.tally.problems.append(f"watcher {self.number}: {how}")
