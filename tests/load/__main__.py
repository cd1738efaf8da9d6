# SPDX-License-Identifier: Apache-2.0
"""The load test: `python -m tests.load --minutes 2`.

200 watchers, 50 writers and 20,000 objects against `rdd service serve`. It fails when a response
is other than a success, 409 or 429, a watch that is read ends or misses an event, a request is cut
off, or memory or descriptors grow by more than 5 % after the warm-up. Latency is reported; it fails
only with `--judge-latency`, which needs an otherwise idle machine.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

from bench.load import quantile
from bench.server import Process, Server, temporary_home
from tests.crash.machine.wire import Connection, cancel
from tests.load.clients import NAMESPACES, SHARED, Tally, Watcher, Writer, collection, config_map

from rdd.instance import Instance

WRITERS = 50
WATCHERS = 200
SLOW_WATCHERS = 5
OBJECTS = 20_000
P99_MS = 250.0
GROWTH = 1.05
SAMPLE_S = 1.0
WINDOW = 15
"""Samples at the beginning and the end of which the medians are compared."""
CATCH_UP_S = 60.0


def main() -> int:
    """Run the load and print the figures."""
    parser = argparse.ArgumentParser(prog="tests.load", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="time of the measurement")
    parser.add_argument("--warm-up", type=float, default=0.5, help="minutes before it")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--per-second", type=float, default=150.0, help="writes of all clients")
    parser.add_argument("--judge-latency", action="store_true", help="fail if p99 is above 250 ms")
    options = parser.parse_args()
    with temporary_home() as home, Server(home, "--controllers=") as server:
        return asyncio.run(_run(options, home, server.process))


async def _run(options: argparse.Namespace, home: Path, server: Process) -> int:
    kubeconfig = Instance("2", home).config
    tally = Tally()
    names = await _fill(kubeconfig, options.objects)
    watchers = [
        Watcher(n, kubeconfig, tally, is_slow=n >= WATCHERS - SLOW_WATCHERS)
        for n in range(WATCHERS)
    ]
    watching: list[asyncio.Task[None]] = []
    for watcher in watchers:  # one after the other: TLS handshakes of 200 at once take long
        task = asyncio.create_task(watcher.run())
        watching.append(task)
        opening = asyncio.create_task(watcher.opened.wait())
        await asyncio.wait((opening, task), return_when=asyncio.FIRST_COMPLETED)
        opening.cancel()
    await asyncio.sleep(1)  # the watches are open, their first events may come
    until = time.monotonic() + (options.minutes + options.warm_up) * 60
    writing = [
        asyncio.create_task(
            Writer(n, names[n], kubeconfig, tally).run(until, WRITERS / options.per_second)
        )
        for n in range(WRITERS)
    ]
    await asyncio.sleep(options.warm_up * 60)
    tally.latencies_ms.clear()
    memory, descriptors = await _sample(server, writing)
    await asyncio.gather(*writing)
    await _compare_events(watchers, tally)
    await cancel(*watching)
    return _report(options, tally, memory, descriptors)


async def _fill(kubeconfig: Path, objects: int) -> list[list[str]]:
    """Create the objects; return the names that belong to each writer."""
    own: list[list[str]] = [[] for _ in range(WRITERS)]
    for number in range(objects - NAMESPACES * SHARED):
        own[number % WRITERS].append(f"o-{number}")

    async def fill(writer: int) -> None:
        connection = Connection(kubeconfig)
        path = collection(writer % NAMESPACES)
        for name in own[writer]:
            status, answer = await connection.request("POST", path, config_map(name, "initial"))
            assert status == 201, answer
        connection.close()

    connection = Connection(kubeconfig)
    for namespace in range(NAMESPACES):
        body = {"metadata": {"name": f"load-{namespace}"}}
        assert (await connection.request("POST", "/api/v1/namespaces", body))[0] == 201
        for number in range(SHARED):
            shared = config_map(f"shared-{number}", "initial")
            assert (await connection.request("POST", collection(namespace), shared))[0] == 201
    connection.close()
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(fill(writer))
    return own


async def _sample(
    server: Process, writing: "list[asyncio.Task[None]]"
) -> tuple[list[float], list[float]]:
    memory: list[float] = []
    descriptors: list[float] = []
    while not all(task.done() for task in writing):
        memory.append(server.rss_mib())
        descriptors.append(float(len(os.listdir(f"/proc/{server.pid}/fd"))))
        await asyncio.sleep(SAMPLE_S)
    return memory, descriptors


async def _compare_events(watchers: list[Watcher], tally: Tally) -> None:
    """Wait until every watcher that reads has received every acknowledged write."""
    end = time.monotonic() + CATCH_UP_S
    for watcher in watchers:
        while not watcher.is_slow and watcher.received != tally.written[watcher.namespace]:
            if time.monotonic() > end:
                tally.problems.append(
                    f"watcher {watcher.number} received {watcher.received} of "
                    f"{tally.written[watcher.namespace]} events"
                )
                break
            await asyncio.sleep(0.05)


def _report(
    options: argparse.Namespace, tally: Tally, memory: list[float], descriptors: list[float]
) -> int:
    ordered = sorted(tally.latencies_ms)
    p99 = quantile(ordered, 0.99)
    load = os.getloadavg()[0]
    lines = [
        f"{options.objects} objects, {WATCHERS} watchers, {WRITERS} writers, "
        f"{options.minutes:g} minutes after {options.warm_up:g} of warm-up",
        f"statuses {dict(sorted(tally.statuses.items()))}, {sum(tally.written)} writes, "
        f"{tally.ended_slow} of {SLOW_WATCHERS} slow watches ended",
        f"latency p50 {quantile(ordered, 0.5):.1f} ms, p99 {p99:.1f} ms (load of the machine "
        f"{load:.1f}){'' if p99 <= P99_MS else ': above 250 ms'}",
    ]
    for title, unit, samples in (
        ("memory", " MiB", memory),
        ("descriptors", "", descriptors),
    ):
        first = statistics.median(samples[:WINDOW])
        last = statistics.median(samples[-WINDOW:])
        lines.append(f"{title} {first:.0f}{unit} -> {last:.0f}{unit} ({last / first - 1:+.1%})")
        if last > first * GROWTH:
            tally.problems.append(f"{title} grew by more than 5 %")
    if options.judge_latency and p99 > P99_MS:
        tally.problems.append(f"p99 is {p99:.0f} ms")
    lines += [f"FAILED: {problem}" for problem in tally.problems[:20]]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
