# SPDX-License-Identifier: Apache-2.0
"""Start-up time, memory at rest, wake-ups when idle, and memory under many updates.

    python -m bench.start [--quick]

The start-up time is measured from starting the program to the first 200 of /readyz, as the
median of several starts: with an empty home directory, with 12,400 objects in the store, and
with 200 CRDs. Figures go to results/start.json, together with the steps that
`bench.startsplit` measures.
"""

import argparse
import asyncio
import itertools
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import orjson
from bench import objects
from bench.apiserver import RESULTS, uvloop_runner
from bench.load import Call, Client, Phase, run
from bench.server import Server, temporary_home

OBJECTS = 12_400
CRDS = 200
UPDATED = 1_000
UPDATES = 100_000
IDLE_S = 5.0
NAMESPACE = "default"
CONFIGMAPS = objects.CONFIGMAPS.format(NAMESPACE)


def starts(home: Path, count: int) -> dict[str, float]:
    """Start a server several times; return the median start time, and the memory after 1 s."""
    ready, memory = [], []
    for _ in range(count):
        with Server(home) as server:
            ready.append(server.ready_s)
            time.sleep(1)
            memory.append(server.process.rss_mib())
    return {"ready_s": statistics.median(ready), "rss_mib": statistics.median(memory)}


def fresh_starts(count: int) -> dict[str, float]:
    """Start a server several times, each time with an empty home directory."""
    each = []
    for _ in range(count):
        with temporary_home() as home:
            each.append(starts(home, 1))
    return {name: statistics.median(one[name] for one in each) for name in each[0]}


async def fill(server: Server, call_path: str, bodies: list[bytes]) -> None:
    """Create objects."""
    calls = [Call("POST", call_path, body, statuses=(201,)) for body in bodies]
    async with Client(server.access()) as client:
        phase = Phase("fill", 8, calls.__getitem__, len(calls), 300)
        await run(client, server.process, phase)


async def _fill_namespaced(server: Server, count: int) -> None:
    bodies = [objects.configmap(f"cm-{i:05}", i) for i in range(count)]
    async with Client(server.access()) as client:
        body = objects.namespace(NAMESPACE)
        await client.send(Call("POST", "/api/v1/namespaces", body, statuses=(201, 409)))
    await fill(server, CONFIGMAPS, bodies)


def with_objects(count: int) -> dict[str, float]:
    """Measure starts with a store of ConfigMaps."""
    with temporary_home() as home:
        with Server(home) as server, uvloop_runner() as runner:
            runner.run(_fill_namespaced(server, OBJECTS))
        return starts(home, count)


def with_crds(count: int) -> dict[str, float]:
    """Measure starts with CRDs, compared with a used home directory without them."""
    bodies = [objects.crd(f"g{i:03}.bench.rdd.test") for i in range(CRDS)]
    with temporary_home() as home:
        starts(home, 1)  # creates the certificates
        bare = starts(home, count)
        with Server(home) as server, uvloop_runner() as runner:
            runner.run(fill(server, objects.CRDS, bodies))
        full = starts(home, count)
        with Server(home) as server, uvloop_runner() as runner:
            runner.run(_use_crds(server))
            time.sleep(1)
            used_mib = server.process.rss_mib()
    return {
        **full,
        "added_s": full["ready_s"] - bare["ready_s"],
        "added_mib": full["rss_mib"] - bare["rss_mib"],
        "used_mib": used_mib - bare["rss_mib"],
    }


async def _use_crds(server: Server) -> None:
    """Create one object of each kind, because kinds may be initialised lazily."""
    async with Client(server.access()) as client:
        for i in range(CRDS):
            group = f"g{i:03}.bench.rdd.test"
            path = f"/apis/{group}/v1/namespaces/{NAMESPACE}/gadgets"
            body = objects.custom(group, "only", i, size=1)
            await client.send(Call("POST", path, body, statuses=(201,)))


def idle() -> dict[str, float]:
    """Measure an idle server."""
    with temporary_home() as home, Server(home) as server:
        time.sleep(2)
        switches, cpu = server.process.switches(), server.process.cpu_s()
        time.sleep(IDLE_S)
        return {
            "wakeups_per_s": (server.process.switches() - switches) / IDLE_S,
            "cpu_ms_per_s": (server.process.cpu_s() - cpu) * 1000 / IDLE_S,
            "rss_mib": server.process.rss_mib(),
        }


def growth(updates: int) -> dict[str, Any]:
    """Measure memory while 1,000 objects are updated repeatedly."""
    with temporary_home() as home, Server(home) as server, uvloop_runner() as runner:
        return runner.run(_growth(server, updates))


async def _growth(server: Server, updates: int) -> dict[str, Any]:
    await _fill_namespaced(server, UPDATED)
    counter = itertools.count()

    def put(_: int) -> Call:
        number = next(counter)
        name = f"cm-{number % UPDATED:05}"
        body = objects.configmap(name, number, mark=f"update-{number}")
        return Call("PUT", f"{CONFIGMAPS}/{name}", body)

    await asyncio.sleep(1)
    curve = [server.process.rss_mib()]
    async with Client(server.access()) as client:
        for _ in range(10):
            phase = Phase("updates", 8, put, updates // 10, 300)
            await run(client, server.process, phase)
            curve.append(server.process.rss_mib())
    await asyncio.sleep(2)
    curve.append(server.process.rss_mib())
    return {"updates": updates, "growth_mib": curve[-1] - curve[0], "curve_mib": curve}


def split() -> dict[str, dict[str, float]]:
    """Measure the steps of a start, with an empty and with a used home directory."""
    with temporary_home() as home:
        return {name: _split(home) for name in ("first start", "second start")}


def _split(home: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.startsplit", str(home)]
    printed = subprocess.run(command, capture_output=True, check=True).stdout
    found: dict[str, float] = orjson.loads(printed)
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.start", description="start-up and memory")
    parser.add_argument("--quick", action="store_true", help="fewer starts, a tenth of the updates")
    given = parser.parse_args(arguments)
    count, updates = (1, UPDATES // 10) if given.quick else (5, UPDATES)
    found: dict[str, Any] = {}
    for name, measure in (
        ("fresh", lambda: fresh_starts(count)),
        ("objects", lambda: with_objects(count)),
        ("crds", lambda: with_crds(count)),
        ("idle", idle),
        ("split", split),
        ("growth", lambda: growth(updates)),
    ):
        found[name] = measure()
        print(f"{name}: {found[name]}", file=sys.stderr)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "start.json").write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
