# SPDX-License-Identifier: Apache-2.0
"""Many kinds (1,000 CRDs) and many watchers (2,000)."""

import asyncio
import resource
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
from bench import objects
from bench.apiserver import uvloop_runner
from bench.load import Call, Client
from bench.scale.probe import Probe
from bench.server import Server, temporary_home
from bench.start import fill

CRDS = 1_000
WATCHERS = 2_000
WRITES = 50
WATCHED = objects.CONFIGMAPS.format("default")
EVERYTHING = ("--log-level=error",)


def crds(count: int = CRDS) -> dict[str, float]:
    """Create CRDs; measure a start with them, discovery, and one more."""
    found: dict[str, float] = {"crds": count}
    with temporary_home() as home:
        with Server(home, *EVERYTHING) as server:
            found["bare_s"], found["bare_cpu_s"] = server.ready_s, server.process.cpu_s()
            found["bare_mib"] = server.process.rss_mib()
        with Server(home, *EVERYTHING) as server, uvloop_runner() as runner:
            bodies = [objects.crd(f"g{i:04}.bench.rdd.test") for i in range(count)]
            cpu = server.process.cpu_s()
            probe = Probe(server.access().url, server.process.pid)
            with probe.watch() as gap:
                runner.run(fill(server, objects.CRDS, bodies))
                runner.run(_established(server))
            probe.close()
            found["create_ms"] = (server.process.cpu_s() - cpu) * 1000 / count
            found["create_gap_ms"], found["create_gap_cpu_ms"] = gap.gap_ms, gap.cpu_ms
        with Server(home, *EVERYTHING) as server, uvloop_runner() as runner:
            found["start_s"], found["start_cpu_s"] = server.ready_s, server.process.cpu_s()
            time.sleep(2)
            found["start_mib"] = server.process.rss_mib()
            runner.run(_use(server, found))
    return found


async def _established(server: Server) -> None:
    async with Client(server.access()) as client:
        while True:
            crds = (await client.json(Call("GET", objects.CRDS)))["items"]
            conditions = [crd["status"].get("conditions") or () for crd in crds]
            if all(any(c["type"] == "Established" for c in found) for found in conditions):
                return
            await asyncio.sleep(0.2)


async def _use(server: Server, found: dict[str, float]) -> None:
    access = server.access()
    probe = Probe(access.url, server.process.pid)
    group = "one.bench.rdd.test"
    calls = {
        "discovery": Call("GET", "/apis"),
        "openapi v2": Call("GET", "/openapi/v2"),
        "openapi v3": Call("GET", f"/openapi/v3/apis/g{CRDS // 2:04}.bench.rdd.test/v1"),
        "one more": Call("POST", objects.CRDS, objects.crd(group), statuses=(201,)),
        "openapi v2 again": Call("GET", "/openapi/v2"),
    }
    try:
        async with Client(access) as client:
            for name, call in calls.items():
                began, cpu = time.perf_counter(), server.process.cpu_s()
                with probe.watch() as gap:
                    await client.send(call)
                    await asyncio.sleep(0.5)  # what the request leaves to the background
                print(
                    f"{CRDS} CRDs, {name:18} {time.perf_counter() - began - 0.5:6.3f} s  "
                    f"cpu {server.process.cpu_s() - cpu:6.3f}  gap {gap.gap_ms:.1f} ms "
                    f"(cpu {gap.cpu_ms:.1f})",
                    file=sys.stderr,
                )
                key = name.replace(" ", "_")
                found[f"{key}_gap_ms"], found[f"{key}_gap_cpu_ms"] = gap.gap_ms, gap.cpu_ms
    finally:
        probe.close()


def watchers(count: int = WATCHERS) -> dict[str, float]:
    """Open watches, each on a connection of its own, and write."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with temporary_home() as home, Server(home, *EVERYTHING) as server, uvloop_runner() as runner:
        return runner.run(_watch(server, count))


async def _watch(server: Server, count: int) -> dict[str, float]:
    process, access = server.process, server.access()
    found: dict[str, Any] = {"watchers": count}
    probe = Probe(access.url, process.pid)
    try:
        async with Client(access) as client, AsyncExitStack() as stack:
            name = objects.configmap("watched", 0)
            await client.send(Call("POST", WATCHED, name, statuses=(201,)))
            call = Call("GET", f"{WATCHED}?watch=1&fieldSelector=metadata.name%3Dwatched")
            before_mib, cpu = process.rss_mib(), process.cpu_s()
            responses: list[aiohttp.ClientResponse] = []
            with probe.watch() as gap:
                for _ in range(count):
                    opened = client.session.get(client.url(call.path), headers=client.headers(call))
                    responses.append(await stack.enter_async_context(opened))
                for response in responses:
                    await response.content.readline()
            found["open_ms"] = (process.cpu_s() - cpu) * 1000 / count
            found["open_gap_ms"], found["open_gap_cpu_ms"] = gap.gap_ms, gap.cpu_ms
            found["kib_each"] = (process.rss_mib() - before_mib) * 1024 / count
            cpu = process.cpu_s()
            with probe.watch() as gap:
                for number in range(WRITES):
                    body = objects.configmap("watched", number, mark=str(number))
                    await client.send(Call("PUT", f"{WATCHED}/watched", body))
                for response in responses:
                    for _ in range(WRITES):
                        await response.content.readline()
            found["event_us"] = (process.cpu_s() - cpu) * 1e6 / count / WRITES
            found["write_gap_ms"], found["write_gap_cpu_ms"] = gap.gap_ms, gap.cpu_ms
            found["end_mib"] = process.rss_mib()
    finally:
        probe.close()
    return found
