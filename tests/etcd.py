# SPDX-License-Identifier: Apache-2.0
"""A real etcd for tests of the store, and a view of it whose revisions start at zero."""

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.programs import Program, run_program, start_program

from rdd.store.contract import (
    Check,
    Compacted,
    CompareFailed,
    Delete,
    FutureRevision,
    HistoryChunk,
    KeyValue,
    Observer,
    Op,
    Put,
    ScanPage,
    StoreEvent,
)
from rdd.store.etcd.store import EtcdStore


class EtcdServer:
    """A member on free ports; a cluster of its own unless `cluster` names others."""

    def __init__(
        self,
        etcd: Path,
        directory: Path,
        *options: str,
        scheme: str = "http",
        name: str = "default",
        ports: tuple[int, int] | None = None,
        cluster: str = "",
        prefix: Sequence[str] = (),
        host: str = "127.0.0.1",
    ) -> None:
        self.directory = directory
        self.name = name
        self.host = host
        self.port, peer_port = ports or free_ports(2)
        peer = f"http://{host}:{peer_port}"
        self._command = [
            *prefix,
            str(etcd),
            f"--name={name}",
            f"--data-dir={directory}/data",
            f"--listen-client-urls={scheme}://{host}:{self.port}",
            f"--advertise-client-urls={scheme}://{host}:{self.port}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={cluster or f'{name}={peer}'}",
            "--log-level=error",
            *options,
        ]
        self._stack = contextlib.ExitStack()
        self.program: Program[str] | None = None

    def start(self, *, wait: bool = True) -> None:
        """Start the member and wait until it accepts connections."""
        log = self._stack.enter_context((self.directory / "etcd.log").open("ab"))
        self.program = self._stack.enter_context(
            start_program(self._command, stdout=log, stderr=log)
        )
        while wait:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port)):
                return
            assert self.program.poll() is None, (self.directory / "etcd.log").read_text()
            time.sleep(0.005)

    def stop(self) -> None:
        """Kill the member; its data stays."""
        self._stack.close()

    def etcdctl(self, *words: str, check: bool = True) -> str:
        """Run etcdctl and return its output."""
        command = ["etcdctl", f"--endpoints={self.host}:{self.port}", *words]
        env = {"ETCDCTL_API": "3", "PATH": "/usr/bin"}
        return run_program(command, env=env, check=check).stdout


def start_cluster(etcd: Path, directory: Path, *options: str, members: int = 3) -> list[EtcdServer]:
    """Start the members of one cluster."""
    ports = free_ports(2 * members)
    pairs = list(zip(ports[::2], ports[1::2], strict=True))
    cluster = ",".join(f"m{n}=http://127.0.0.1:{peer}" for n, (_, peer) in enumerate(pairs))
    found = []
    for number, pair in enumerate(pairs):
        (directory / f"m{number}").mkdir(parents=True)
        found.append(
            EtcdServer(
                etcd,
                directory / f"m{number}",
                *options,
                name=f"m{number}",
                ports=pair,
                cluster=cluster,
            )
        )
    for member in found:
        member.start(wait=False)  # the first one accepts connections when there is a quorum
    return found


def leader_of(members: Sequence[EtcdServer]) -> EtcdServer:
    """Return the member that leads; wait for an election if there is none."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for member in members:
            status = member.etcdctl("endpoint", "status", "--write-out=json", check=False)
            for found in json.loads(status or "[]"):
                header = found["Status"]["header"]
                if found["Status"].get("leader") == header["member_id"] != 0:
                    return member
        time.sleep(0.05)
    raise AssertionError("the cluster has no leader")


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]


class RelativeStore:
    """An EtcdStore whose revisions count from its first opening.

    etcd counts revisions of the whole cluster; the contract suite expects a new store to
    start at zero.
    """

    def __init__(self, store: EtcdStore, base: int) -> None:
        self.store = store
        self.base = base

    @property
    def revision(self) -> int:
        return self.store.revision - self.base

    @property
    def is_shared(self) -> bool:
        return self.store.is_shared

    @property
    def is_distributed(self) -> bool:
        return self.store.is_distributed

    @property
    def is_current(self) -> bool:
        return self.store.is_current

    def problem(self) -> str:
        return self.store.problem()

    @property
    def compacted(self) -> int:
        return max(0, self.store.compacted - self.base)

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        with self._errors():
            found = await self.store.get(key, revision=self._absolute(revision))
        return None if found is None else self._record(found)

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> ScanPage:
        with self._errors():
            page = await self.store.scan(
                prefix, revision=self._absolute(revision), after=after, limit=limit
            )
        return ScanPage(
            [self._record(r) for r in page.records], page.revision - self.base, page.more
        )

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        with self._errors():
            return await self.store.commit([self._op(op) for op in ops]) - self.base

    async def settled(self, key: str) -> None:
        await self.store.settled(key)

    async def refresh(self, at_least: int = 0) -> None:
        await self.store.refresh(self._absolute(at_least))

    def observe(self, callback: Observer) -> Callable[[], None]:
        return self.store.observe(lambda events: callback([self._event(e) for e in events]))

    def on_gap(self, callback: Callable[[int], None]) -> None:
        self.store.on_gap(callback)

    async def history(self, prefix: str, after: int) -> HistoryChunk:
        with self._errors():
            chunk = await self.store.history(prefix, after + self.base)
        return HistoryChunk([self._event(e) for e in chunk.events], chunk.revision - self.base)

    async def compact(self, revision: int) -> None:
        with self._errors():
            await self.store.compact(revision + self.base)

    async def backup(self, target: Path) -> None:
        await self.store.backup(target)

    async def close(self) -> None:
        await self.store.close()

    def _absolute(self, revision: int) -> int:
        return revision + self.base if revision > 0 else revision

    def _op(self, op: Op) -> Op:
        expect = self._absolute(op.expect)
        if isinstance(op, Put):
            return Put(op.key, op.value, expect, op.ttl_s)
        return Delete(op.key, expect) if isinstance(op, Delete) else Check(op.key, expect)

    def _record(self, record: KeyValue) -> KeyValue:
        return KeyValue(
            record.key, record.value, record.revision - self.base, record.created - self.base
        )

    def _event(self, event: StoreEvent) -> StoreEvent:
        return StoreEvent(
            event.type,
            event.key,
            event.value,
            event.revision - self.base,
            event.created - self.base,
            event.previous,
            event.previous_revision - self.base if event.previous_revision else 0,
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        base = self.base
        try:
            yield
        except CompareFailed as error:
            expected = error.expected - base if error.expected > 0 else error.expected
            current = error.current - base if error.current else 0
            raise CompareFailed(error.key, expected, current, pending=error.pending) from error
        except Compacted as error:
            raise Compacted(error.revision - base, error.compacted - base) from error
        except FutureRevision as error:
            raise FutureRevision(error.revision - base, error.current - base) from error
