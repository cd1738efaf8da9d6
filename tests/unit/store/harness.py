# SPDX-License-Identifier: Apache-2.0
"""A common way to open and reopen all implementations."""

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.etcd import EtcdServer, RelativeStore

from rdd.store.contract import Store, StoreEvent
from rdd.store.etcd.address import EtcdAddress
from rdd.store.etcd.store import EtcdStore
from rdd.store.memory import MemoryStore
from rdd.store.options import StoreOptions
from rdd.store.sqlite.store import SqliteStore

LocalStore = SqliteStore | MemoryStore
"""Stores with one writer."""

AnyStore = LocalStore | RelativeStore


class Clock:
    """A wall clock that tests move."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@dataclass
class Harness:
    """Opens stores of one kind in one directory and closes them at the end."""

    kind: str
    directory: Path
    clock: Clock = field(default_factory=Clock)
    opened: list[AnyStore] = field(default_factory=list)
    etcd: EtcdServer | None = None
    base: int | None = None
    """The revision of etcd at which a store was opened first."""

    @property
    def path(self) -> Path:
        return self.directory / "store.db"

    async def open(self, options: StoreOptions | None = None) -> AnyStore:
        options = replace(options or StoreOptions(), clock=self.clock)
        store: AnyStore
        if self.kind == "sqlite":
            store = await SqliteStore.open(self.path, options=options)
        elif self.kind == "memory":
            store = MemoryStore(options=options)
        else:
            assert self.etcd is not None
            prefix = f"/rdd/{self.directory.name}"
            address = EtcdAddress((("127.0.0.1", self.etcd.port),), prefix)
            opened = await EtcdStore.open(address, owner="tests", options=options)
            self.base = opened.revision if self.base is None else self.base
            store = RelativeStore(opened, self.base)
        self.opened.append(store)
        return store

    async def open_local(self, options: StoreOptions | None = None) -> LocalStore:
        """Open a store with one writer."""
        store = await self.open(options)
        assert not isinstance(store, RelativeStore)
        return store

    async def close(self) -> None:
        for store in self.opened:
            await store.close()


async def crash_copy(store: SqliteStore, source: Path, target: Path) -> None:
    """Copy the files as a crash of the process would leave them."""

    def copy(_: sqlite3.Connection) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        for suffix in ("", "-wal"):
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")

    await store._writer.run(copy)


@asynccontextmanager
async def held_writer(store: SqliteStore) -> AsyncIterator[None]:
    """Block the writer, so that commits stay in flight."""
    release, holding = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        holding.set()
        release.wait()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store._writer.run(hold))
        await asyncio.to_thread(holding.wait)
        try:
            yield
        finally:
            release.set()


async def turn() -> None:
    """Run every ready task until it waits."""
    for _ in range(3):
        await asyncio.sleep(0)


class Recorder:
    """Records the events a store publishes from now on."""

    def __init__(self, store: Store) -> None:
        self.events: list[StoreEvent] = []
        self._changed = asyncio.Event()
        store.observe(self._observe)

    def _observe(self, events: Sequence[StoreEvent]) -> None:
        self.events += events
        self._changed.set()

    async def wait_for(self, count: int) -> list[StoreEvent]:
        """Wait for at least that many events and return all."""
        while len(self.events) < count:
            self._changed.clear()
            await self._changed.wait()
        return self.events


async def read_history(store: AnyStore, prefix: str = "", after: int = 0) -> list[StoreEvent]:
    """Read the whole history after a revision, chunk by chunk."""
    events: list[StoreEvent] = []
    while after < store.revision:
        chunk = await store.history(prefix, after)
        assert chunk.revision > after
        events += chunk.events
        after = chunk.revision
    return events


def brief(events: Sequence[StoreEvent]) -> list[tuple[str, str, bytes, int]]:
    """Return type, key, value and revision of events."""
    return [(event.type.value, event.key, event.value, event.revision) for event in events]
