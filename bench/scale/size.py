# SPDX-License-Identifier: Apache-2.0
"""Everything that is measured at one number of objects.

The server runs with all controllers. Most objects are in the namespace `many`, 1,000 belong to
an owner
that is deleted (garbage collection), 1,000 are in a namespace that is deleted.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from bench import objects
from bench.apiserver import uvloop_runner
from bench.load import Call, Client, Phase, run
from bench.scale.fill import fill
from bench.scale.probe import Gap, Probe
from bench.server import Server, temporary_home

PAGE = 500
DEPENDENTS = 1_000
MANY = objects.CONFIGMAPS.format("many")
EVERYTHING = ("--log-level=error",)
WITHIN_S = 300.0


def measure(count: int, *, updates: bool, value_bytes: int = objects.VALUE_BYTES) -> dict[str, Any]:
    """Return the figures of one number of objects."""
    with temporary_home() as home:
        size = _prepare(home, count, value_bytes)
        found: dict[str, Any] = {"objects": count, "bytes": size * (count + 2 * DEPENDENTS)}
        ready, cpu = [], []
        for _ in range(3):
            with Server(home, *EVERYTHING) as server:
                ready.append(server.ready_s)
                cpu.append(server.process.cpu_s())
                time.sleep(2)
                found["start_mib"] = server.process.rss_mib()
        found["start_s"], found["start_cpu_s"] = statistics.median(ready), statistics.median(cpu)
        with Server(home, *EVERYTHING) as server, uvloop_runner() as runner:
            time.sleep(2)
            runner.run(_Size(server, count, found).all(updates=updates))
        return found


def _prepare(home: Path, count: int, value_bytes: int) -> int:
    def shortened(name: str, number: int, **metadata: Any) -> bytes:
        obj = orjson.loads(objects.configmap(name, number))
        obj["data"]["value"] = obj["data"]["value"][:value_bytes]
        obj["metadata"].update(metadata)
        return orjson.dumps(obj)

    async def templates(server: Server) -> None:
        async with Client(server.access()) as client:
            for name in ("many", "doomed"):
                body = objects.namespace(name)
                await client.send(Call("POST", "/api/v1/namespaces", body, statuses=(201,)))
            await client.send(Call("POST", MANY, shortened("cm", 0), statuses=(201,)))
            doomed = objects.CONFIGMAPS.format("doomed")
            await client.send(Call("POST", doomed, shortened("cm", 1), statuses=(201,)))
            owner = await client.json(Call("POST", MANY, shortened("owner", 2), statuses=(201,)))
            reference = {
                "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
                "uid": owner["metadata"]["uid"],
            }  # fmt: skip
            owned = shortened("owned", 3, ownerReferences=[reference], labels={"part": "owned"})
            await client.send(Call("POST", MANY, owned, statuses=(201,)))

    with Server(home, *EVERYTHING) as server, uvloop_runner() as runner:
        runner.run(templates(server))
    fill(home, "owned", "many", DEPENDENTS - 1)
    fill(home, "cm", "doomed", DEPENDENTS - 1)
    return fill(home, "cm", "many", count)


class _Size:
    """The measurements against a running server."""

    def __init__(self, server: Server, count: int, found: dict[str, Any]) -> None:
        self._server = server
        self._process = server.process
        self._count = count
        self._found = found
        self._access = server.access()
        self._probe = Probe(self._access.url, self._process.pid)

    async def all(self, *, updates: bool) -> None:
        try:
            async with Client(self._access) as client:
                self._client = client
                await self._gap("idle", self._idle)
                for clients, name, call in (
                    (8, "get", self._get),
                    (1, "page", self._page),
                    (1, "page_after_write", self._page_after_write),
                ):
                    follow = self._then_page if name == "page_after_write" else None
                    phase = Phase(name, clients, call, seconds=1.5, warm_up_s=0.2, follow=follow)

                    async def load(phase: Phase = phase) -> None:
                        result = await run(self._client, self._process, phase)
                        self._found[f"{phase.name}_us"] = result.server_us

                    await self._gap(name, load)
                await self._gap("selector", self._selector)
                await self._gap("list", self._list)
                await self._gap("walk", self._walk)
                await self._gap("watch", self._watch)
                await self._gap("gc", self._collect)
                await self._gap("namespace", self._delete_namespace)
                if updates:
                    await self._gap("updates", self._update_all)
                    await asyncio.sleep(3)
                self._found["end_mib"] = self._process.rss_mib()
        finally:
            self._probe.close()

    async def _gap(self, name: str, action: Callable[[], Awaitable[None]]) -> None:
        began, cpu = time.perf_counter(), self._process.cpu_s()
        gap: Gap
        with self._probe.watch() as gap:
            await action()
        self._found[f"{name}_s"] = time.perf_counter() - began
        self._found[f"{name}_cpu_s"] = self._process.cpu_s() - cpu
        self._found[f"{name}_gap_ms"], self._found[f"{name}_gap_cpu_ms"] = gap.gap_ms, gap.cpu_ms
        print(
            f"{self._count:>9} {name:18} {self._found[f'{name}_s']:7.3f} s"
            f"  cpu {self._found[f'{name}_cpu_s']:7.3f} s"
            f"  gap {gap.gap_ms:6.1f} ms (cpu {gap.cpu_ms:5.1f})  rss {self._process.rss_mib():.0f}"
            f"  {self._found.get(f'{name}_us', 0):.0f} µs",
            file=sys.stderr,
        )

    async def _idle(self) -> None:
        await asyncio.sleep(1)

    def _get(self, number: int) -> Call:
        return Call("GET", f"{MANY}/cm-{number * 7919 % self._count:07}")

    def _page(self, number: int) -> Call:
        return Call("GET", f"{MANY}?limit={PAGE}")

    def _page_after_write(self, number: int) -> Call:
        body = objects.configmap(f"new-{number:07}", number)
        return Call("POST", MANY, body, statuses=(201,))

    def _then_page(self, response: bytes) -> Call | None:
        return self._page(0) if response.startswith(b'{"kind":"ConfigMap",') else None

    async def _selector(self) -> None:
        """A list of everything with a selector that matches nothing."""
        await self._client.send(Call("GET", "/api/v1/configmaps?labelSelector=absent"))

    async def _stream(self, path: str) -> int:
        """Read a response of any size; return its bytes."""
        size = 0
        call = Call("GET", path)
        async with self._client.session.get(
            self._client.url(path), headers=self._client.headers(call)
        ) as response:
            async for data in response.content.iter_any():
                size += len(data)
        return size

    async def _list(self) -> None:
        self._found["list_bytes"] = await self._stream(MANY)

    async def _walk(self) -> None:
        """Read 20 pages, each with the token of the one before."""
        path = f"{MANY}?limit={PAGE}"
        token = ""
        for _ in range(20):
            page = await self._client.json(Call("GET", path + token))
            if not page["metadata"].get("continue"):
                return
            token = f"&continue={page['metadata']['continue']}"

    async def _watch(self) -> None:
        """Start a watch with the whole state and read it up to its bookmark."""
        path = (
            f"{MANY}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            "&allowWatchBookmarks=true"
        )
        call = Call("GET", path)
        began = time.perf_counter()
        async with self._client.session.get(
            self._client.url(path), headers=self._client.headers(call)
        ) as response:
            rest = b""
            async for data in response.content.iter_any():
                if "watch_first_ms" not in self._found:
                    self._found["watch_first_ms"] = (time.perf_counter() - began) * 1000
                if b"k8s.io/initial-events-end" in rest[-400:] + data:
                    return
                rest = data

    async def _until(self, path: str, done: Callable[[bytes], bool]) -> None:
        deadline = time.perf_counter() + WITHIN_S
        while not done(await self._client.send(Call("GET", path, statuses=(200, 404)))):
            if time.perf_counter() > deadline:
                raise TimeoutError(path)
            await asyncio.sleep(0.05)

    async def _collect(self) -> None:
        await self._client.send(Call("DELETE", f"{MANY}/owner"))
        selected = f"{MANY}?labelSelector=part%3Downed&limit=1"
        await self._until(selected, lambda body: not json.loads(body)["items"])

    async def _delete_namespace(self) -> None:
        path = "/api/v1/namespaces/doomed"
        await self._client.send(Call("DELETE", path))
        await self._until(path, lambda body: b'"code":404' in body)

    async def _update_all(self) -> None:
        def put(number: int) -> Call:
            name = f"cm-{number:07}"
            return Call("PUT", f"{MANY}/{name}", objects.configmap(name, number, mark="updated"))

        await run(self._client, self._process, Phase("update", 32, put, self._count, 3600))
