# SPDX-License-Identifier: Apache-2.0
"""Clients of several API servers that record what they do and see.

Writers read, create, update and delete a few ConfigMaps and move from server to server with every
call. Creators create names of their own and repeat a create until its outcome is known. Watchers
follow all ConfigMaps and resume at another server after every end.
"""

import asyncio
import json
import random
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from tests.etcd_attack.checker import (
    ABSENT,
    CONFLICT,
    CREATE,
    DELETE,
    EXISTS,
    OK,
    READ,
    UNKNOWN,
    UPDATE,
    Change,
    Operation,
)

NAMESPACE = "attack"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_TIMEOUT = aiohttp.ClientTimeout(total=5)
_UNKNOWN = (aiohttp.ClientError, TimeoutError, OSError)
_STATUS = {200: OK, 201: OK, 404: ABSENT, 409: CONFLICT}


@dataclass
class Endpoint:
    """How to reach an API server; the URL changes when it is restarted."""

    url: str
    token: str
    tls: ssl.SSLContext


@dataclass
class Recording:
    """What the clients did and saw."""

    operations: list[Operation] = field(default_factory=list)
    created: dict[str, str] = field(default_factory=dict)
    """Names that a creator has made sure of, and their values."""
    errors: list[str] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    """Answers by status."""


@dataclass
class WatchSegment:
    """The events of one watch, across resumptions, after the version of its list."""

    after: int
    events: list[Change] = field(default_factory=list)
    resumptions: int = 0

    @property
    def last(self) -> int:
        return self.events[-1].revision if self.events else self.after


class Clients:
    """The clients of one run."""

    def __init__(self, endpoints: list[Endpoint], seed: int, *, stale_reads: bool = False) -> None:
        self._endpoints = endpoints
        self._random = random.Random(seed)
        self._reads = "?resourceVersion=0" if stale_reads else ""
        self._sequence = 0
        self.recording = Recording()
        self.is_over = False

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
            yield session

    async def call(
        self, session: aiohttp.ClientSession, method: str, path: str, body: Any = None
    ) -> tuple[int, Any]:
        """Make a request at any server; 0 without an answer."""
        endpoint = self._random.choice(self._endpoints)
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        try:
            async with session.request(
                method, endpoint.url + path, json=body, headers=headers, ssl=endpoint.tls
            ) as answer:
                status, found = answer.status, await answer.json(content_type=None)
        except (*_UNKNOWN, ValueError):
            status, found = 0, None
        answers = self.recording.answers
        answers[status] = answers.get(status, 0) + 1
        if status == 503 and "Retry-After" not in answer.headers:
            self.recording.errors.append(f"503 without Retry-After: {found}")
        if status == 500:
            self.recording.errors.append(f"500: {found}")
        return status, found

    def _value(self) -> str:
        self._sequence += 1
        return f"v{self._sequence}"

    async def write(self, names: list[str]) -> None:
        """Work on shared objects until the run is over."""
        known: dict[str, Any] = {}
        async with self._session() as session:
            while not self.is_over:
                name = self._random.choice(names)
                kind = self._random.choice((READ, READ, UPDATE, UPDATE, UPDATE, CREATE, DELETE))
                obj = known.get(name)
                if kind == UPDATE and obj is None:
                    kind = READ
                await self._operate(session, kind, name, known)
                await asyncio.sleep(0.005)

    async def _operate(
        self, session: aiohttp.ClientSession, kind: str, name: str, known: dict[str, Any]
    ) -> None:
        value = self._value() if kind in (CREATE, UPDATE) else None
        expected = None
        start = time.monotonic()
        if kind == READ:
            status, found = await self.call(session, "GET", f"{PATH}/{name}{self._reads}")
        elif kind == CREATE:
            status, found = await self.call(session, "POST", PATH, config_map(name, value))
        elif kind == UPDATE:
            expected = known[name]["data"]["value"]
            body = config_map(name, value)
            body["metadata"]["resourceVersion"] = known[name]["metadata"]["resourceVersion"]
            status, found = await self.call(session, "PUT", f"{PATH}/{name}", body)
        else:
            status, found = await self.call(session, "DELETE", f"{PATH}/{name}")
        end = time.monotonic()
        outcome = _STATUS.get(status, UNKNOWN)
        if kind == READ:
            if outcome == UNKNOWN:
                return
            known[name] = found if status == 200 else None
            value = found["data"]["value"] if status == 200 else None
            outcome = OK
        elif kind == CREATE and outcome == CONFLICT:
            outcome = EXISTS
        elif kind in (CREATE, UPDATE) and outcome == OK:
            known[name] = found
        else:
            known.pop(name, None)
        self.recording.operations.append(
            Operation(name, kind, outcome, start, end, value, expected)
        )

    async def create(self, prefix: str) -> None:
        """Create own objects, each exactly once; repeat while the outcome is unknown."""
        async with self._session() as session:
            number = 0
            while not self.is_over:
                name, value = f"{prefix}-{number}", self._value()
                number += 1
                while True:
                    status, _ = await self.call(session, "POST", PATH, config_map(name, value))
                    if status in (201, 409):  # 409: an earlier attempt was executed
                        self.recording.created[name] = value
                        break
                    await asyncio.sleep(0.05)
                await asyncio.sleep(0.02)

    async def lists(self) -> None:
        """Walk through all objects in pages; an expired token starts again."""
        async with self._session() as session:
            while not self.is_over:
                token, found = "", 0
                while not self.is_over:
                    path = f"{PATH}?limit=5&continue={token}"
                    status, page = await self.call(session, "GET", path)
                    if status != 200:
                        break
                    found += len(page["items"])
                    token = page["metadata"].get("continue", "")
                    if not token:
                        break
                await asyncio.sleep(0.02)

    async def watch(self, segments: list[WatchSegment], until: "asyncio.Future[int]") -> None:
        """Follow all objects until a revision, at any server; a 410 starts a new segment."""
        async with self._session() as session:
            while not (until.done() and segments and segments[-1].last >= until.result()):
                if not segments:
                    status, page = await self.call(session, "GET", PATH)
                    if status != 200:
                        await asyncio.sleep(0.05)
                        continue
                    segments.append(WatchSegment(int(page["metadata"]["resourceVersion"])))
                try:
                    if not await self._follow(session, segments[-1], until):
                        status, page = await self.call(session, "GET", PATH)
                        if status == 200:
                            version = int(page["metadata"]["resourceVersion"])
                            segments.append(WatchSegment(version))
                except (*_UNKNOWN, ValueError):
                    await asyncio.sleep(0.02)
                segments[-1].resumptions += 1

    async def _follow(
        self, session: aiohttp.ClientSession, segment: WatchSegment, until: "asyncio.Future[int]"
    ) -> bool:
        """Read one watch to its end; return False if its version has expired."""
        endpoint = self._random.choice(self._endpoints)
        path = f"{PATH}?watch=1&timeoutSeconds=2&resourceVersion={segment.last}"
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        async with session.get(endpoint.url + path, headers=headers, ssl=endpoint.tls) as answer:
            async for line in answer.content:
                if not line.endswith(b"\n"):
                    return True  # cut off in the middle of an event
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return bool(event["object"].get("code") != 410)
                segment.events.append(change_of(event["type"], event["object"]))
                if until.done() and segment.last >= until.result():
                    return True
        return True


def config_map(name: str, value: str | None) -> Any:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"value": value},
    }


def change_of(kind: str, obj: Any) -> Change:
    """Return an event as the checker compares it."""
    meta = obj["metadata"]
    return Change(kind, meta["name"], int(meta["resourceVersion"]), obj["data"].get("value"))
