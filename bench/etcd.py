# SPDX-License-Identifier: Apache-2.0
"""The API server on etcd: rows of `bench.apiserver` on each store, and reads at several servers.

    python -m bench.etcd [--pace 0.25] [--stores sqlite,etcd,shared] [--etcd PATH]
    python -m bench.etcd --servers [--share 0.15]
    python -m bench.etcd --reads
    python -m bench.etcd --sizes 1000,10000,100000

CPU time is that of the server plus etcd, a single member with fsync, as in the reference. `etcd` is
a store of one server, `shared` one of several, whose reads without a resourceVersion are
linearizable. With --servers, one and then three servers share etcd and get the same reads: the CPU
time per read shows what further cores would give. With --share each server is limited to that part
of a core, so that three have three times the CPU time of one on a machine with fewer cores, and the
rates can be compared. Prints tables in Markdown.
"""

import argparse
import asyncio
import contextlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from bench import objects
from bench.apiserver import measure, uvloop_runner
from bench.load import Call, Client, Phase, Result, run
from bench.reference import ROWS
from bench.server import Process, Server, temporary_home

from rdd.apiserver.state import codec
from rdd.store.contract import Put
from rdd.store.etcd.address import parse_address
from rdd.store.etcd.ownership import SHARED_OWNER
from rdd.store.etcd.store import EtcdStore

STORES = ("sqlite", "etcd", "shared")
SERVERS = 3
READS = 1_000
BATCH, WRITERS = 90, 8
PERIOD_US = 10_000
QUOTA = 8 << 30
"""A million objects need more than etcd's default of 2 GiB."""


class Processes(Process):
    """A server, whose memory counts, and others, whose CPU time is added."""

    def __init__(self, pid: int, *others: int) -> None:
        super().__init__(pid)
        self._others = [Process(other) for other in others]

    def cpu_s(self) -> float:
        """Return the CPU time of all processes."""
        return super().cpu_s() + sum(other.cpu_s() for other in self._others)


@contextlib.contextmanager
def etcd(program: str) -> Iterator[tuple[str, int]]:
    """Run a member; yield its address and process id."""
    directory = tempfile.mkdtemp(prefix="bench-etcd-")
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        client, peer = one.getsockname()[1], two.getsockname()[1]
    command = [
        program,
        f"--data-dir={directory}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--log-level=error",
        f"--quota-backend-bytes={QUOTA}",
    ]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", client)):
                break
            time.sleep(0.05)
        yield f"127.0.0.1:{client}", child.pid
    finally:
        child.kill()
        child.wait()
        shutil.rmtree(directory)


def measure_store(store: str, program: str, pace: float) -> dict[str, Any]:
    """Return rows and memory of one store."""
    with contextlib.ExitStack() as stack:
        arguments, others = ["--controllers="], []
        if store != "sqlite":
            address, pid = stack.enter_context(etcd(program))
            shared = "?shared=true" if store == "shared" else ""
            arguments.append(f"--store=etcd://{address}/bench{shared}")
            others.append(pid)
        home = stack.enter_context(temporary_home())
        server = stack.enter_context(Server(home, *arguments))
        process = Processes(server.process.pid, *others)
        with uvloop_runner() as runner:
            return runner.run(measure(server.access(), process, pace=pace, prefix=f"[{store}]"))


def print_rows(results: dict[str, dict[str, Any]]) -> None:
    """Print a row for each request: CPU time and rate on each store."""
    stores = list(results)
    columns = [f"{store}: µs, per second" for store in stores]
    print(f"| request | {' | '.join(columns)} | kube-apiserver + etcd: µs | factor by CPU |")
    print("|" + "---|" * (len(columns) + 3))
    for name, reference in ROWS.items():
        cells = []
        for store in stores:
            row = results[store]["rows"].get(name, {})
            cells.append(f"{row.get('server_us', 0):,.0f}, {row.get('per_second') or 0:,.0f}")
        last = results[stores[-1]]["rows"].get(name, {}).get("server_us")
        factor = f"{reference.server_us / last:.1f}×" if reference.server_us and last else ""
        print(f"| {name} | {' | '.join(cells)} | {reference.server_us or ''} | {factor} |")
    print()
    for name in results[stores[0]]["memory"]:
        sizes = " | ".join(f"{results[store]['memory'][name]} MiB" for store in stores)
        print(f"| memory, {name} | {sizes} |")


async def _read(clients: list[Client], processes: list[Process], query: str) -> list[Result]:
    path = objects.CONFIGMAPS.format("default")
    calls = [Call("GET", f"{path}/cm-{i:05}{query}") for i in range(READS)]
    phase = Phase("GET", 8, lambda i: calls[i % READS], seconds=4, warm_up_s=0.3)
    return await asyncio.gather(
        *(run(client, process, phase) for client, process in zip(clients, processes, strict=True))
    )


async def _compare(servers: list[Server], etcd_pid: int) -> None:
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(s.access())) for s in servers]
        path = objects.CONFIGMAPS.format("default")
        for number in range(READS):
            body = objects.configmap(f"cm-{number:05}", number)
            await clients[0].send(Call("POST", path, body, statuses=(201,)))
        print("| reads | servers | µs per read at the server | µs per read in etcd | reads/s |")
        print("|---|---|---|---|---|")
        for query, name in (("?resourceVersion=0", "rv=0"), ("", "linearizable")):
            for count in (1, len(servers)):
                shared = Process(etcd_pid)
                before = shared.cpu_s()
                processes = [server.process for server in servers[:count]]
                found = await _read(clients[:count], processes, query)
                operations = sum(result.operations for result in found)
                own = sum(r.server_us * r.operations for r in found) / operations
                in_etcd = (shared.cpu_s() - before) / operations * 1e6
                rate = sum(result.per_second for result in found)
                print(f"| {name} | {count} | {own:.1f} | {in_etcd:.1f} | {rate:,.0f} |", flush=True)


@contextlib.contextmanager
def limited(process: Process, share: float) -> Iterator[None]:
    """Let a process use this part of a core; needs root and version 1 of control groups."""
    group = Path(f"/sys/fs/cgroup/cpu/bench-etcd-{process.pid}")
    group.mkdir()
    try:
        (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
        (group / "cgroup.procs").write_text(str(process.pid))
        yield
    finally:
        (group.parent / "cgroup.procs").write_text(str(process.pid))
        group.rmdir()


def compare_servers(program: str, share: float) -> None:
    """Read at one server, then at three that share etcd; each has the same part of a core."""
    with contextlib.ExitStack() as stack:
        address, pid = stack.enter_context(etcd(program))
        store = f"--store=etcd://{address}/bench?shared=true"
        servers = []
        for _ in range(SERVERS):
            home = stack.enter_context(temporary_home())
            servers.append(stack.enter_context(Server(home, "--controllers=", store)))
        if share:
            for server in servers:
                stack.enter_context(limited(server.process, share))
        with uvloop_runner() as runner:
            runner.run(_compare(servers, pid))


async def _cached_reads(servers: dict[str, Server], rounds: int) -> None:
    path = objects.CONFIGMAPS.format("default")
    gets = [Call("GET", f"{path}/cm-{i:05}?resourceVersion=0") for i in range(READS)]
    listing = Call("GET", f"{path}?resourceVersion=0")
    costs: dict[tuple[str, str], list[float]] = {}
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            name: await stack.enter_async_context(Client(server.access()))
            for name, server in servers.items()
        }
        for client in clients.values():
            for number in range(READS):
                body = objects.configmap(f"cm-{number:05}", number)
                await client.send(Call("POST", path, body, statuses=(201,)))
        for _ in range(rounds):
            for name, server in servers.items():  # alternating: the load of the machine changes
                for kind, phase in (
                    ("GET rv=0", Phase("get", 8, lambda i: gets[i % READS], seconds=1.5)),
                    ("LIST 1,000 rv=0", Phase("list", 4, lambda _: listing, seconds=1.5)),
                ):
                    found = await run(clients[name], server.process, phase)
                    costs.setdefault((kind, name), []).append(found.server_us)
    print(f"| µs per read, median of {rounds} | {' | '.join(servers)} |")
    print("|" + "---|" * (len(servers) + 1))
    for kind in ("GET rv=0", "LIST 1,000 rv=0"):
        cells = [f"{statistics.median(costs[kind, name]):,.1f}" for name in servers]
        print(f"| {kind} | {' | '.join(cells)} |")


def compare_reads(program: str, rounds: int = 5) -> None:
    """Read from the caches of servers on each store, in turn."""
    with contextlib.ExitStack() as stack:
        servers = {}
        for store in STORES:
            arguments = ["--controllers="]
            if store != "sqlite":
                address, _ = stack.enter_context(etcd(program))
                shared = "?shared=true" if store == "shared" else ""
                arguments.append(f"--store=etcd://{address}/bench{shared}")
            home = stack.enter_context(temporary_home())
            servers[store] = stack.enter_context(Server(home, *arguments))
        with uvloop_runner() as runner:
            runner.run(_cached_reads(servers, rounds))


async def _fill(address: str, count: int) -> None:
    """Write ConfigMaps directly to etcd, in large transactions."""
    store = await EtcdStore.open(
        parse_address(f"etcd://{address}/bench?shared=true"), owner=SHARED_OWNER
    )
    try:
        starts = iter(range(0, count, BATCH))

        async def write() -> None:
            for first in starts:
                ops = []
                for number in range(first, min(first + BATCH, count)):
                    name = f"cm-{number:07}"
                    obj = orjson.loads(objects.configmap(name, number))
                    obj["metadata"] |= {"namespace": "default", "uid": str(uuid.uuid4())}
                    ops.append(Put(f"/registry/configmaps/default/{name}", codec.encode(obj)))
                await store.commit(ops)

        await asyncio.gather(*(write() for _ in range(WRITERS)))
    finally:
        await store.close()


async def _page(server: Server) -> Result:
    path = objects.CONFIGMAPS.format("default")
    page = Call("GET", f"{path}?limit=500")
    async with Client(server.access()) as client:
        return await run(
            client, server.process, Phase("page", 1, lambda _: page, seconds=2, warm_up_s=0.2)
        )


def measure_sizes(program: str, sizes: list[int]) -> None:
    """Start a server on etcd with more and more objects."""
    print(
        "| objects | start: s | CPU s | memory MiB | page of 500: µs | etcd memory MiB | fill s |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for size in sizes:
        with contextlib.ExitStack() as stack:
            address, pid = stack.enter_context(etcd(program))
            began = time.perf_counter()
            with uvloop_runner() as runner:
                runner.run(_fill(address, size))
            filled_s = time.perf_counter() - began
            home = stack.enter_context(temporary_home())
            store = f"--store=etcd://{address}/bench?shared=true"
            server = stack.enter_context(Server(home, "--controllers=", store))
            started, memory = server.process.cpu_s(), server.process.rss_mib()
            with uvloop_runner() as runner:
                page = runner.run(_page(server))
            print(
                f"| {size:,} | {server.ready_s:.1f} | {started:.2f} | {memory:.0f} | "
                f"{page.server_us:,.0f} | {Process(pid).rss_mib():.0f} | {filled_s:.0f} |",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.etcd", description="the API server on etcd")
    parser.add_argument("--pace", type=float, default=1.0, help="shorter phases below 1")
    parser.add_argument("--stores", default=",".join(STORES))
    parser.add_argument("--etcd", default=shutil.which("etcd") or "etcd")
    parser.add_argument("--servers", action="store_true", help="compare one and three servers")
    parser.add_argument("--share", type=float, default=0, help="part of a core for each of them")
    parser.add_argument("--reads", action="store_true", help="compare cached reads of all stores")
    parser.add_argument("--sizes", default="", help="numbers of objects, e.g. 1000,10000")
    given = parser.parse_args()
    if given.reads:
        compare_reads(given.etcd)
        return 0
    if given.sizes:
        measure_sizes(given.etcd, [int(size) for size in given.sizes.split(",")])
        return 0
    if given.servers:
        compare_servers(given.etcd, given.share)
        return 0
    results = {
        store: measure_store(store, given.etcd, given.pace) for store in given.stores.split(",")
    }
    print_rows(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
