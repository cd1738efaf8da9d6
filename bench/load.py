# SPDX-License-Identifier: Apache-2.0
"""A closed-loop load: N clients, each with one request in flight on its own connection.

A phase is a numbered series of calls. A client takes the next number when its last call is
complete; the phase ends after a number of operations or of seconds. The status of every
response is checked, and an unexpected one aborts the benchmark: a server that rejects
requests quickly is not fast.

An operation is one call, or a chain of them (`follow` makes the next call from a response:
the pages of a list). Latency is measured from the first call to the last byte and includes
the cost of this client. So the CPU time of the server per operation is measured, too: it does
not depend on the client.
"""

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import aiohttp
import orjson
from bench.server import Access, Process
from yarl import URL

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_TICKS_PER_S = 100.0  # USER_HZ, which /proc/stat counts in on every Linux


class UnexpectedResponse(Exception):
    """The server responded with an unexpected status."""


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None = None
    media: str = JSON
    accept_encoding: str = "identity"
    statuses: tuple[int, ...] = (200,)


@dataclass(frozen=True, slots=True)
class Phase:
    """The calls, the number of clients and the duration."""

    name: str
    clients: int
    call: Callable[[int], Call]
    operations: int | None = None
    seconds: float = 20.0
    follow: Callable[[bytes], Call | None] | None = None
    warm_up_s: float = 0.0


@dataclass(slots=True)
class Result:
    """The figures of one phase."""

    operations: int
    seconds: float
    per_second: float
    p50_ms: float
    p99_ms: float
    server_us: float
    """CPU time of the server per operation."""
    client_load: float
    """Cores that this client used; near 1 the client is the bottleneck."""
    foreign_load: float
    """Cores that neither client nor server used; a noisy phase if above 0.1."""
    extra: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the figures, rounded to significant digits."""
        flat = asdict(self)
        flat.update(flat.pop("extra"))
        return {name: _significant(value) for name, value in flat.items()}


class Client:
    """A keep-alive HTTPS client of one server."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None
        self._headers: dict[tuple[str, str], dict[str, str]] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._access.tls, keepalive_timeout=120),
            auto_decompress=False,
            read_bufsize=1 << 20,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """Open the connections for the block."""
        assert self._session is not None
        return self._session

    async def send(self, call: Call) -> bytes:
        """Return the body of the response; raise UnexpectedResponse for another status."""
        async with self.session.request(
            call.method, self.url(call.path), data=call.body, headers=self.headers(call)
        ) as response:
            body = await response.read()
            if response.status not in call.statuses:
                raise UnexpectedResponse(
                    f"{call.method} {call.path}: {response.status} {body[:300]!r}"
                )
            return body

    async def json(self, call: Call) -> Any:
        """Return the decoded response."""
        return orjson.loads(await self.send(call))

    def url(self, path: str) -> URL:
        """Return the URL of a path, which is already encoded."""
        return URL(self._access.url + path, encoded=True)

    def headers(self, call: Call) -> dict[str, str]:
        """Return the headers of a call, cached per kind of call."""
        key = (call.media, call.accept_encoding)
        found = self._headers.get(key)
        if found is None:
            found = self._headers[key] = {
                "Authorization": f"Bearer {self._access.token}",
                "Accept": JSON,
                "Accept-Encoding": call.accept_encoding,
                "Content-Type": call.media,
            }
        return found


async def run(client: Client, server: Process, phase: Phase) -> Result:
    """Run a phase."""
    numbers = itertools.count()
    if phase.warm_up_s:
        await _drive(client, phase, numbers, math.inf, time.perf_counter() + phase.warm_up_s)
    usage = Usage(server)
    limit = math.inf if phase.operations is None else phase.operations
    taken = await _drive(client, phase, numbers, limit, time.perf_counter() + phase.seconds)
    return usage.result(taken)


async def _drive(
    client: Client, phase: Phase, numbers: "itertools.count[int]", limit: float, until: float
) -> list[float]:
    """Run operations until the limit; return the latencies in milliseconds."""
    taken: list[float] = []
    clock = time.perf_counter

    async def one_client() -> None:
        while (began := clock()) < until:
            number = next(numbers)
            if number >= limit:
                return
            response = await client.send(phase.call(number))
            if phase.follow is not None:
                while (further := phase.follow(response)) is not None:
                    response = await client.send(further)
            taken.append((clock() - began) * 1000)

    async with asyncio.TaskGroup() as group:
        for _ in range(phase.clients):
            group.create_task(one_client())
    return taken


class Usage:
    """CPU time of the server, this client and the rest of the machine over a period."""

    def __init__(self, server: Process) -> None:
        self._server = server
        self._before = self._now()

    def _now(self) -> tuple[float, float, float, float]:
        return time.perf_counter(), self._server.cpu_s(), time.process_time(), _machine_cpu_s()

    def result(self, latencies_ms: list[float], operations: int | None = None) -> Result:
        """Return the figures since this object was created."""
        wall, server, client, machine = (
            now - before for now, before in zip(self._now(), self._before, strict=True)
        )
        ordered = sorted(latencies_ms)
        count = operations if operations is not None else len(ordered)
        return Result(
            operations=count,
            seconds=wall,
            per_second=count / wall,
            p50_ms=quantile(ordered, 0.5),
            p99_ms=quantile(ordered, 0.99),
            server_us=server / max(1, count) * 1e6,
            client_load=client / wall,
            foreign_load=max(0.0, machine - server - client) / wall,
        )


def quantile(ordered: list[float], share: float) -> float:
    """Return a percentile of ordered values; 0 if there are none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def _machine_cpu_s() -> float:
    with Path("/proc/stat").open() as stat:
        user, nice, system, _idle, _io, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / _TICKS_PER_S


def _significant(value: float) -> float:
    return float(f"{value:.4g}")
