# SPDX-License-Identifier: Apache-2.0
"""Requests per second, latency and cost of the API server, row by row.

    python -m bench.apiserver [--quick] [--runs N] [--url … --token … --ca … --pid …]

Each run starts a new server with a new disk file, creates 11,000 ConfigMaps and measures the
rows below; its figures go to results/apiserver-<run>.json. Row names are the keys of
`reference.ROWS`. With --url it measures another Kubernetes API server, so that a comparison
can be repeated.
"""

import argparse
import asyncio
import math
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import uvloop
from bench import objects, watching
from bench.load import (
    APPLY_PATCH,
    MERGE_PATCH,
    Call,
    Client,
    Phase,
    Result,
    UnexpectedResponse,
    run,
)
from bench.server import Access, Process, Server, temporary_home

RESULTS = Path(__file__).parent / "results"

MANY = 10_000
SOME = 1_000
PAGE = 500
CRS = 1_500
APPLIED = 400
BURSTS = 3
QUICK = 0.25


@dataclass(frozen=True, slots=True)
class Places:
    """Names of one run, unique so that a server can be measured twice."""

    run: str

    @property
    def many(self) -> str:
        """Collection of 10,000 ConfigMaps."""
        return objects.CONFIGMAPS.format(f"{self.run}-many")

    @property
    def some(self) -> str:
        """Collection of 1,000 ConfigMaps."""
        return objects.CONFIGMAPS.format(f"{self.run}-some")

    @property
    def group(self) -> str:
        """API group of the custom resources."""
        return f"{self.run}.bench.rdd.test"

    @property
    def gadgets(self) -> str:
        """Collection of custom resources."""
        return f"/apis/{self.group}/v1/namespaces/{self.run}-some/gadgets"


class Run:
    """One pass through all rows against one server."""

    def __init__(self, client: Client, server: Process, *, pace: float, prefix: str) -> None:
        self._client = client
        self._server = server
        self._pace = pace
        self._prefix = prefix
        self._places = Places(f"bench-{time.time_ns() // 1_000_000:x}")
        self.rows: dict[str, dict[str, Any]] = {}
        self.memory: dict[str, float] = {}

    async def all(self) -> None:
        """Measure all rows, in an order that satisfies their dependencies."""
        self.memory["idle"] = self._server.rss_mib()
        for name in ("many", "some"):
            body = objects.namespace(f"{self._places.run}-{name}")
            await self._client.send(Call("POST", "/api/v1/namespaces", body, statuses=(201,)))
        for phase in self._creates():
            await self._measure(phase)
        await asyncio.sleep(2 * self._pace)
        self.memory["10,000 ConfigMaps"] = self._server.rss_mib()
        for phase in (*self._reads(), *self._lists(), *self._updates()):
            await self._measure(phase)
        await self._watches()
        await self._crd()
        for phase in (*self._customs(), self._deletes()):
            await self._measure(phase)
        self.memory["end"] = self._server.rss_mib()

    async def _measure(self, phase: Phase) -> None:
        if phase.operations is None:
            phase = replace(phase, seconds=phase.seconds * self._pace, warm_up_s=0.3)
        self._note(phase.name, await run(self._client, self._server, phase))

    def _note(self, name: str, result: Result) -> None:
        self.rows[name] = result.to_json()
        print(
            f"{self._prefix} {name:22} {result.per_second:9.0f}/s  p50 {result.p50_ms:7.2f} ms  "
            f"p99 {result.p99_ms:7.2f} ms  server {result.server_us:7.0f} µs  "
            f"client {result.client_load:.2f}  others {result.foreign_load:.2f}",
            file=sys.stderr,
        )

    def _creates(self) -> Iterator[Phase]:
        many, some = self._places.many, self._places.some

        def creator(path: str, first: int) -> Callable[[int], Call]:
            def call(number: int) -> Call:
                body = objects.configmap(f"cm-{first + number:05}", number)
                return Call("POST", path, body, statuses=(201,))

            return call

        by_8 = MANY * 2 // 5
        yield Phase("create, 8 clients", 8, creator(many, 0), by_8, math.inf)
        yield Phase("create, 32 clients", 32, creator(many, by_8), MANY - by_8, math.inf)
        yield Phase("create, 1 client", 1, creator(some, 0), SOME, math.inf)

    def _reads(self) -> Iterator[Phase]:
        paths = [f"{self._places.some}/cm-{i:05}" for i in range(SOME)]
        calls = [Call("GET", path) for path in paths]
        any_version = [Call("GET", f"{path}?resourceVersion=0") for path in paths]
        for clients in (1, 8, 32):
            name = f"GET, {clients} client{'s' * (clients > 1)}"
            yield Phase(name, clients, lambda i: calls[i % SOME], seconds=2.5)
        yield Phase("GET rv=0, 8 clients", 8, lambda i: any_version[i % SOME], seconds=2.5)

    def _lists(self) -> Iterator[Phase]:
        some, many = Call("GET", self._places.some), Call("GET", self._places.many)
        zipped = many._replace(accept_encoding="gzip")
        first = Call("GET", f"{self._places.many}?limit={PAGE}")

        def next_page(response: bytes) -> Call | None:
            token = orjson.loads(response)["metadata"].get("continue")
            return Call("GET", f"{first.path}&continue={quote(token)}") if token else None

        yield Phase("LIST 1,000, 1 client", 1, lambda _: some, seconds=2.5)
        yield Phase("LIST 1,000, 8 clients", 8, lambda _: some, seconds=2.5)
        yield Phase("LIST 10,000", 1, lambda _: many, seconds=3)
        yield Phase("LIST 10,000 gzip", 1, lambda _: zipped, seconds=3)
        yield Phase("LIST 10,000 paged", 1, lambda _: first, seconds=3, follow=next_page)

    def _updates(self) -> Iterator[Phase]:
        some = self._places.some

        def patch(number: int) -> Call:
            body = b'{"data":{"mark":"patch-%d"}}' % number
            return Call("PATCH", f"{some}/cm-{number % SOME:05}", body, MERGE_PATCH)

        def put(number: int) -> Call:
            name = f"cm-{number % SOME:05}"
            body = objects.configmap(name, number, mark=f"put-{number}")
            return Call("PUT", f"{some}/{name}", body)

        yield Phase("merge PATCH, 8 clients", 8, patch, seconds=3)
        yield Phase("PUT, 8 clients", 8, put, seconds=3)

    async def _watches(self) -> None:
        namespace = f"{self._places.run}-many"
        await watching.prepare(self._client, namespace)
        writes = int(600 * self._pace)
        result = await watching.latency(
            self._client, self._server, namespace, writes=writes, per_second=100
        )
        self._note("watch latency", result)
        bursts = [
            await watching.fan_out(self._client, self._server, namespace, watchers=100, writes=200)
            for _ in range(BURSTS)
        ]
        # One burst takes a fifth of a second, so a short disturbance distorts it.
        self._note("watch fan-out", sorted(bursts, key=lambda r: r.per_second)[BURSTS // 2])

    async def _crd(self) -> None:
        """POST a CRD and poll its objects until they can be listed."""
        began = time.perf_counter()
        body = objects.crd(self._places.group)
        await self._client.send(Call("POST", objects.CRDS, body, statuses=(201,)))
        listing = Call("GET", self._places.gadgets, statuses=(200, 404))
        while b'"items"' not in await self._client.send(listing):
            if time.perf_counter() - began > 30:
                raise UnexpectedResponse("a CRD was not served within 30 s")
        took = (time.perf_counter() - began) * 1000
        self.rows["CRD ready"] = {"p50_ms": round(took, 2)}
        print(f"{self._prefix} {'CRD ready':22} {took:.1f} ms", file=sys.stderr)
        # Exclude the background update of discovery and schemas from the next rows.
        await asyncio.sleep(1)

    def _customs(self) -> Iterator[Phase]:
        gadgets, group = self._places.gadgets, self._places.group

        def create(number: int) -> Call:
            body = objects.custom(group, f"cr-{number:05}", number, size=3)
            return Call("POST", gadgets, body, statuses=(201,))

        reads = [Call("GET", f"{gadgets}/cr-{i:05}") for i in range(CRS)]

        def apply(number: int) -> Call:
            name = f"applied-{number % APPLIED:05}"
            body = objects.custom(group, name, number % APPLIED, size=number)
            path = f"{gadgets}/{name}?fieldManager=bench&force=true"
            return Call("PATCH", path, body, APPLY_PATCH, statuses=(200, 201))

        yield Phase("CR create, 8 clients", 8, create, CRS, math.inf)
        yield Phase("CR GET, 8 clients", 8, lambda i: reads[i % CRS], seconds=2.5)
        yield Phase("apply create, 8 clients", 8, apply, APPLIED, math.inf)
        yield Phase("apply update, 8 clients", 8, lambda i: apply(APPLIED + i), seconds=3)

    def _deletes(self) -> Phase:
        some = self._places.some
        calls = [Call("DELETE", f"{some}/cm-{i:05}") for i in range(SOME)]
        return Phase("DELETE, 8 clients", 8, lambda i: calls[i], SOME, math.inf)


async def measure(access: Access, server: Process, *, pace: float, prefix: str) -> dict[str, Any]:
    """Run one pass; return rows and memory as JSON."""
    async with Client(access) as client:
        one = Run(client, server, pace=pace, prefix=prefix)
        await one.all()
    return {"rows": one.rows, "memory": {k: round(v, 1) for k, v in one.memory.items()}}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.apiserver", description="requests and their cost")
    parser.add_argument("--quick", action="store_true", help="one short run")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--url", help="measure the server there instead of starting ours")
    parser.add_argument("--token", default="")
    parser.add_argument("--ca", help="file with its certificate authority")
    parser.add_argument("--pid", type=int, help="its process, for CPU time and memory")
    given = parser.parse_args(arguments)
    pace, runs = (QUICK, 1) if given.quick else (1.0, given.runs)
    if given.url and not (given.ca and given.pid):
        parser.error("--url needs --ca and --pid")
    RESULTS.mkdir(exist_ok=True)
    for old in RESULTS.glob("apiserver-*.json"):
        old.unlink()
    for number in range(1, runs + 1):
        prefix = f"[{number}/{runs}]"
        with uvloop_runner() as runner:
            if given.url:
                result = runner.run(_measure_other(given, pace=pace, prefix=prefix))
            else:
                with temporary_home() as home, Server(home) as server:
                    access, process = server.access(), server.process
                    result = runner.run(measure(access, process, pace=pace, prefix=prefix))
        path = RESULTS / f"apiserver-{number}.json"
        path.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
    return 0


async def _measure_other(given: argparse.Namespace, *, pace: float, prefix: str) -> dict[str, Any]:
    access = Access(given.url.rstrip("/"), given.token, ssl.create_default_context(cafile=given.ca))
    return await measure(access, Process(given.pid), pace=pace, prefix=prefix)


def uvloop_runner() -> asyncio.Runner:
    """Return a runner with the event loop that the server uses."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


if __name__ == "__main__":
    sys.exit(main())
