# SPDX-License-Identifier: Apache-2.0
"""The store on etcd.

Keys and revisions are etcd's own: a key of the store is stored below `PREFIX/keys`, its
revisions are `mod_revision` and `create_revision`, a transaction is one Txn with comparisons.
etcd decides concurrency, so `commit` raises CompareFailed after the answer, not before.

A commit returns when the watch (`follower`) has delivered it: observers, and so the caches of
the API server, include it. A failed comparison likewise waits for the change that caused it, so
a caller that reads again reads the newer state.

Every transaction that changes something also writes `PREFIX/meta/head`. `refresh` reads it with
a linearizable read, shared by all who wait, and returns when the watch has reached it: from
then on a cached read is as new as any write acknowledged by any server before. Progress
requests of watches would serve the same end, but are wrong in etcd before 3.4.31 and 3.5.13.

Compaction is etcd's and concerns the whole cluster, not the prefix alone: a cluster should
serve one control plane.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from rdd.grpc.errors import GrpcError, StatusCode
from rdd.grpc.messages import Message, field
from rdd.store.contract import (
    ABSENT,
    ANY,
    Check,
    Compacted,
    CompareFailed,
    Delete,
    EventType,
    FutureRevision,
    HistoryChunk,
    KeyValue,
    Observer,
    Op,
    OutcomeUnknown,
    Put,
    ScanPage,
    StoreEvent,
    StoreUnreachable,
    Unavailable,
    ValueTooLarge,
)
from rdd.store.etcd import requests
from rdd.store.etcd.address import EtcdAddress
from rdd.store.etcd.client import EtcdClient
from rdd.store.etcd.export import rows_of
from rdd.store.etcd.follower import Follower
from rdd.store.etcd.leases import LeasePool
from rdd.store.etcd.ownership import check_version, claim_prefix
from rdd.store.etcd.reading import PrefixReader
from rdd.store.etcd.requests import EtcdEvent
from rdd.store.options import StoreOptions
from rdd.store.retention import Retention
from rdd.store.sqlite import backup
from rdd.store.sqlite.reader import in_thread

log = logging.getLogger(__name__)

MAX_OPS = 100
"""Operations of one transaction; etcd's default limit is 128, with `meta/head`."""
_TOO_LARGE, _LARGER = "request is too large", "message larger than max"
"""What etcd and gRPC answer to a request above etcd's limit."""
_VISIBLE_S = 30.0
"""How long a commit waits for its own events before its outcome counts as unknown."""


class EtcdStore:
    """A Store in etcd; `open` connects it."""

    def __init__(self, client: EtcdClient, options: StoreOptions, owner: str) -> None:
        self.client = client
        self._options = options
        self._owner = owner
        self._head = f"{client.address.prefix}/meta/head".encode()
        self._retention = Retention(0, (), options=options)
        self._reader = PrefixReader(client, self._retention, revision=lambda: self.revision)
        self._observers: list[Observer] = []
        self._gap_callbacks: list[Callable[[int], None]] = []
        self._live: dict[str, tuple[int, int]] = {}
        """Revisions of every key that was delivered: modified, created."""
        self._leases = LeasePool(client)
        self._follower: Follower | None = None
        self._refreshing: asyncio.Task[int] | None = None
        self._compacting: asyncio.Task[None] | None = None
        self._compaction_problem = ""
        self._is_closed = False

    @classmethod
    async def open(
        cls, address: EtcdAddress, *, owner: str, options: StoreOptions | None = None
    ) -> "EtcdStore":
        """Connect and claim the prefix for `owner`. Raises InvalidAddress, StoreError."""
        client = EtcdClient(address)
        store = cls(client, options or StoreOptions(), owner)
        try:
            await check_version(client)
            await claim_prefix(client, owner)
            revision, store._live = await store._reader.revisions()
            store._follower = Follower(
                client,
                *store._reader.range,
                revision,
                on_events=store._publish,
                on_gap=store._reload,
            )
        except BaseException:
            await client.close()
            raise
        return store

    @property
    def revision(self) -> int:
        """The newest revision that observers have seen."""
        return self._follower.revision if self._follower else 0

    @property
    def is_shared(self) -> bool:
        """Whether other servers write to it."""
        return self.client.address.is_shared

    @property
    def is_distributed(self) -> bool:
        """Whether observers may be behind: the watch can be lost."""
        return True

    @property
    def is_current(self) -> bool:
        """Whether this is the only writer and its watch is open."""
        return not self.client.address.is_shared and not self.problem()

    def problem(self) -> str:
        """Return why the watch is lost; empty while it is open."""
        return self._follower.problem if self._follower else "the store is closed"

    @property
    def compacted(self) -> int:
        """The newest revision known to be compacted."""
        return self._retention.compacted

    async def get(self, key: str, *, revision: int = 0) -> KeyValue | None:
        """Return the record of a key now, or as of a retained revision."""
        self._check(revision)
        return await self._reader.get(key, revision)

    async def scan(
        self, prefix: str, *, revision: int = 0, after: str = "", limit: int = 0
    ) -> ScanPage:
        """Return live records whose key starts with prefix and sorts after `after`."""
        self._check(revision)
        records: list[KeyValue] = []
        at, more = revision, True
        while more and (not limit or len(records) < limit):
            last = records[-1].key if records else after
            page = await self._reader.page(prefix, last, limit and limit - len(records), at)
            at, more = page.revision, page.more
            records += page.records
        return ScanPage(records, at, more)

    async def commit(self, ops: Sequence[Op], *, durable: bool = True) -> int:
        """Apply all operations as one revision and return it. Always durable."""
        self._check_open()
        _check_ops(ops)
        compares = [
            requests.is_at(self._reader.encode(op.key), op.expect) for op in ops if op.expect != ANY
        ]
        for op in ops:
            if isinstance(op, Delete) and op.expect == ABSENT:
                found = await self.get(op.key)
                raise CompareFailed(op.key, ABSENT, found.revision if found else 0)
        changes = [await self._change(op) for op in ops if not isinstance(op, Check)]
        if changes and not compares and all(isinstance(op, Delete) for op in ops):
            live = [op for op in ops if op.key in self._live]
            if not live:
                await self.refresh()
                live = [op for op in ops if op.key in self._live]
            if not live:
                return self.revision
        if changes:
            changes.append(requests.put(self._head, b""))
        looks = [requests.read(self._reader.encode(op.key)) for op in ops if op.expect != ANY]
        message = requests.txn(compares, changes, [*looks, requests.read(self._head)])
        answer = await self._write(message)
        revision = requests.succeeded_at(answer)
        if not revision:
            await self._lose([op for op in ops if op.expect != ANY], Message(answer))
        if not changes:
            return self.revision
        await self._reached(revision)
        return revision

    async def settled(self, key: str) -> None:
        """Return at once: a failed commit has already waited for the change that beat it."""

    async def refresh(self, at_least: int = 0) -> None:
        """Return when observers have seen everything that was acknowledged before the call.

        Calls that wait for a read to begin share it. A revision `at_least` that the cluster has
        reached may be one of other keys, which the watch does not deliver: then this writes
        `meta/head`, and what precedes that write has been delivered. Raises Unavailable.
        """
        self._check_open()
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])  # it may have read before this call
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(
                self._read_head(), name="store-etcd-refresh"
            )
            self._refreshing.add_done_callback(_retrieve)
        newest = await asyncio.shield(self._refreshing)
        if self.revision < at_least <= newest:
            message = requests.txn([], [requests.put(self._head, b"")], [])
            await self._reached(requests.succeeded_at(await self._write(message)))

    def observe(self, callback: Observer) -> Callable[[], None]:
        """Call back with every batch from now on; return the function that unsubscribes."""
        self._observers.append(callback)

        def stop() -> None:
            if callback in self._observers:
                self._observers.remove(callback)

        return stop

    def on_gap(self, callback: Callable[[int], None]) -> None:
        """Call back before observers get only the differences up to a revision."""
        self._gap_callbacks.append(callback)

    async def history(self, prefix: str, after: int) -> HistoryChunk:
        """Return the oldest changes of keys with this prefix after a revision."""
        self._check(after)
        if after < self._retention.compacted:
            raise Compacted(after, self._retention.compacted)
        return await self._reader.history(prefix, after, self.revision)

    async def compact(self, revision: int) -> None:
        """Drop the history of the cluster up to and including revision; live values stay."""
        if revision <= self._retention.compacted:
            return
        self._check(revision)
        try:
            await self.client.write(requests.COMPACT, field(1, revision))
        except GrpcError as error:
            if error.code != StatusCode.OUT_OF_RANGE:  # another server was faster
                raise Unavailable(f"{self.client.address}: {error.message}") from error
        self._retention.advance(revision)

    async def backup(self, target: Path, *, revision: int = 0) -> None:
        """Write a consistent copy, as a file that SqliteStore opens; of now, or of a revision."""
        self._check(revision)
        rows = await rows_of(self.client, self._reader.pages(revision), self._options.clock)
        await in_thread(
            "store-backup",
            backup.dump,
            rows,
            target,
            compacted=self.revision,
            reserved=self.revision,
        )

    async def close(self) -> None:
        """Close the connections; etcd keeps what was committed."""
        self._is_closed = True
        for task in (self._refreshing, self._compacting):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if self._follower is not None:
            await self._follower.close()
        await self.client.close()

    # -- writing

    async def _change(self, op: Op) -> bytes:
        if isinstance(op, Delete):
            return requests.delete(self._reader.encode(op.key))
        assert isinstance(op, Put)
        lease = 0
        if op.ttl_s:
            try:
                lease = await self._leases.lease(op.ttl_s)
            except GrpcError as error:
                raise StoreUnreachable(f"{self.client.address}: {error.message}") from error
        return requests.put(self._reader.encode(op.key), op.value, lease)

    async def _write(self, message: bytes) -> bytes:
        try:
            return await self.client.write(requests.TXN, message)
        except GrpcError as error:
            if _TOO_LARGE in error.message or _LARGER in error.message:
                raise ValueTooLarge(f"{self.client.address}: {error.message}") from error
            # Too many requests, no space, no permission: it ends without a restart.
            raise StoreUnreachable(f"{self.client.address}: {error.message}") from error

    async def _lose(self, compared: list[Op], answer: Message) -> NoReturn:
        """Wait for the change that failed the comparison, then raise CompareFailed."""
        current: list[int] = []
        for response in answer.messages(3):
            found = response.message(1).messages(2)
            current.append(requests.value_of(found[0]).modified if found else 0)
        await self._reached(max(current))  # the last one is meta/head
        for op, revision in zip(compared, current, strict=False):
            if revision != op.expect:
                raise CompareFailed(op.key, op.expect, revision)
        raise CompareFailed(compared[0].key, compared[0].expect, current[0])

    async def _reached(self, revision: int) -> None:
        assert self._follower is not None
        if revision <= self._follower.revision:
            return  # the watch was faster than the answer
        try:
            async with asyncio.timeout(_VISIBLE_S):
                await self._follower.reached(revision)
        except TimeoutError:
            raise OutcomeUnknown(
                f"{self.client.address}: revision {revision} is not visible after {_VISIBLE_S:g} s"
            ) from None

    # -- reading

    async def _read_head(self) -> int:
        """Wait for the newest write; return the revision of the cluster."""
        seen = self.revision  # before the read: the watch may be faster than its answer
        answer = await self._reader.read(requests.range_request(self._head, keys_only=True))
        if (newest := answer.revision) < seen:
            raise Unavailable(
                f"{self.client.address}: the newest revision is {newest}, but {seen} was "
                "seen before: the cluster was restored from a backup; restart the control plane"
            )
        if answer.values:
            await self._reached(answer.values[0].modified)
        return newest

    def _check_open(self) -> None:
        if self._is_closed:
            raise Unavailable("the store is closed")

    def _check(self, revision: int) -> None:
        """Refuse a revision that cannot be read; 0 is the current one."""
        self._check_open()
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision and revision < self._retention.compacted:
            raise Compacted(revision, self._retention.compacted)

    # -- following

    def _publish(self, events: list[EtcdEvent]) -> None:
        self._notify([change for event in events if (change := self._observed(event))])
        revision = events[-1].value.modified
        if self._retention.is_due(revision):
            self._compact_old(revision)

    def _observed(self, event: EtcdEvent) -> StoreEvent | None:
        """Return a change for observers, which get no previous values; keep its revisions."""
        value = event.value
        if not (key := self._reader.key_of(value)):
            return None
        if event.is_delete:
            before, created = self._live.pop(key, (0, 0))
            return StoreEvent(EventType.DELETE, key, b"", value.modified, created, None, before)
        before = self._live.get(key, (0, 0))[0]
        self._live[key] = value.modified, value.created
        return StoreEvent(
            EventType.PUT, key, value.value, value.modified, value.created, None, before
        )

    def _notify(self, changes: list[StoreEvent]) -> None:
        for observer in tuple(self._observers) if changes else ():
            try:
                observer(changes)
            except Exception:  # one failing observer must not affect the others
                log.exception(
                    "an observer of the store failed at revision %d", changes[-1].revision
                )

    async def _reload(self) -> int:
        """Read everything again and publish the differences; return the revision."""
        records: dict[str, KeyValue] = {}
        revision = 0
        async for page in self._reader.pages():
            revision = page.revision
            records |= {record.key: record for record in page.records}
        changes = [
            StoreEvent(EventType.PUT, r.key, r.value, r.revision, r.created, None, known)
            for r in sorted(records.values(), key=lambda r: r.revision)
            if (known := self._live.get(r.key, (0, 0))[0]) != r.revision
        ]
        # Last, because they get the revision of the reload: revisions never decrease.
        changes += [
            StoreEvent(EventType.DELETE, key, b"", revision, created, None, modified)
            for key, (modified, created) in self._live.items()
            if key not in records
        ]
        self._live = {r.key: (r.revision, r.created) for r in records.values()}
        for callback in self._gap_callbacks:
            callback(revision)
        self._notify(changes)
        return revision

    def _compact_old(self, revision: int) -> None:
        now = self._options.clock()
        target = self._retention.target(revision, now)
        self._retention.mark(revision, now)
        if target and (self._compacting is None or self._compacting.done()):
            self._compacting = asyncio.get_running_loop().create_task(
                self._compact_logged(target), name="store-etcd-compact"
            )

    async def _compact_logged(self, revision: int) -> None:
        try:
            await self.compact(revision)
        except Unavailable as error:
            if not self._compaction_problem:
                advice = "; set --auto-compaction-retention of etcd if its user may not"
                log.warning("%s cannot be compacted: %s%s", self.client.address, error, advice)
            self._compaction_problem = str(error)
        else:
            self._compaction_problem = ""


def _retrieve(task: "asyncio.Task[int]") -> None:
    """Mark the failure of a task as handled, even if all who waited have given up."""
    if not task.cancelled():
        task.exception()


def _check_ops(ops: Sequence[Op]) -> None:
    if len(ops) > MAX_OPS:
        raise ValueError(f"{len(ops)} operations in one transaction, at most {MAX_OPS} are allowed")
    if any(not op.key for op in ops):
        raise ValueError("a key must not be empty")
    if len({op.key for op in ops}) != len(ops):
        raise ValueError("a key occurs twice in one transaction")
