# SPDX-License-Identifier: Apache-2.0
"""Reads below a prefix: single keys, pages at a revision, older changes.

etcd limits a page by the number of keys only. So the number follows the size of the values:
it is halved when a page is larger than this client accepts, and shrinks before that as pages
become large, so that no page delays the event loop for long.
"""

from collections.abc import AsyncIterator, Callable

from rdd.base.protowire import MalformedProtobuf
from rdd.grpc.errors import GrpcError, GrpcFailure, MessageTooLarge, StatusCode
from rdd.store.contract import (
    Compacted,
    EventType,
    FutureRevision,
    HistoryChunk,
    KeyValue,
    ScanPage,
    StoreEvent,
    StoreUnreachable,
    Unavailable,
)
from rdd.store.etcd import requests
from rdd.store.etcd.client import EtcdClient
from rdd.store.etcd.requests import EtcdEvent, EtcdRange, EtcdValue
from rdd.store.etcd.watching import WatchCompacted, WatchEvents, check_previous
from rdd.store.keys import NO_END, scan_range
from rdd.store.retention import Retention

_PAGE = 1_000
_PAGE_OF_KEYS = 5_000
_PAGE_BYTES = 4_000_000
_CHUNK_EVENTS = 2_000


class PrefixReader:
    """Reads the keys of one store."""

    def __init__(
        self, client: EtcdClient, retention: Retention, *, revision: Callable[[], int]
    ) -> None:
        self._client = client
        self._retention = retention
        self._revision = revision
        self._page_size = _PAGE
        self.root = f"{client.address.prefix}/keys"
        base = client.address.prefix
        self.range = f"{base}/".encode(), f"{base}0".encode()  # "0" follows "/"

    def encode(self, key: str) -> bytes:
        """Return the key in etcd of a key of the store."""
        return (self.root + key).encode()

    async def get(self, key: str, revision: int) -> KeyValue | None:
        """Return the record of a key; revision 0 is the current one. Raises StoreError."""
        request = requests.range_request(self.encode(key), revision=revision)
        found = (await self.read(request, revision)).values
        return self.record(found[0]) if found else None

    async def page(self, prefix: str, after: str, limit: int, revision: int) -> ScanPage:
        """Return a part of a range, at most `limit` keys (0: any number). Raises StoreError."""
        low, high = scan_range(self.root + prefix, self.root + after if after else "")
        assert high is not NO_END and isinstance(high, str)
        while True:
            size = min(self._page_size, limit) if limit else self._page_size
            request = requests.range_request(
                low.encode(), high.encode(), limit=size, revision=revision
            )
            try:
                answer = await self.read(request, revision)
                break
            except MessageTooLarge as error:
                if self._page_size == 1:
                    raise Unavailable(f"{self._client.address}: {error}") from error
                self._page_size = max(1, min(size, self._page_size) // 2)
        records = [self.record(value) for value in answer.values]
        if sum(len(record.value) for record in records) > _PAGE_BYTES:
            self._page_size = max(1, len(records) // 2)
        elif self._page_size < _PAGE:
            self._page_size = min(_PAGE, self._page_size * 2)
        return ScanPage(records, revision or answer.revision, answer.more)

    async def pages(self, revision: int = 0) -> AsyncIterator[ScanPage]:
        """Yield everything below the prefix, at one revision. Raises StoreError."""
        after, more = "", True
        while more:
            page = await self.page("", after, 0, revision)
            yield page
            revision, more = page.revision, page.more
            after = page.records[-1].key if page.records else ""

    async def revisions(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """Return a revision, and when each key was modified and created then.

        Only keys are read: the caller of `pages` would need the values, too. Raises StoreError.
        """
        found: dict[str, tuple[int, int]] = {}
        low, high = scan_range(self.root, "")
        assert isinstance(high, str)
        start, revision, more = low.encode(), 0, True
        while more:
            request = requests.range_request(
                start, high.encode(), limit=_PAGE_OF_KEYS, revision=revision, keys_only=True
            )
            answer = await self.read(request, revision)
            revision, more = revision or answer.revision, answer.more
            for value in answer.values:
                found[value.key.decode()[len(self.root) :]] = value.modified, value.created
            if answer.values:
                start = answer.values[-1].key + b"\0"
        return revision, found

    async def history(self, prefix: str, after: int, target: int) -> HistoryChunk:
        """Return changes after a revision, at most up to `target`. Raises StoreError.

        Reads the changes of the whole range and selects: only `meta/head` shows that a
        revision without a change below the prefix has been reached.
        """
        reached = after
        found: list[StoreEvent] = []
        try:
            if reached < target:
                request = requests.watch(*self.range, after + 1, has_previous=True)
                responses = WatchEvents()
                async with self._client.watch(request) as stream:
                    async for message in stream:
                        events = responses.take(message)
                        check_previous(events)
                        for event in events:
                            reached = event.value.modified
                            if change := self._event(event):
                                found.append(change)
                        if reached >= target or len(found) >= _CHUNK_EVENTS:
                            break
        except WatchCompacted as gap:
            self._retention.advance(gap.compacted)
            raise Compacted(after, gap.compacted) from None
        except GrpcFailure as error:
            raise StoreUnreachable(f"{self._client.address}: {error}") from error
        return HistoryChunk([event for event in found if event.key.startswith(prefix)], reached)

    async def read(self, request: bytes, revision: int = 0) -> EtcdRange:
        """Make a Range call. Raises StoreError, MessageTooLarge."""
        try:
            return requests.range_of(await self._client.read(requests.RANGE, request))
        except MalformedProtobuf as error:
            raise StoreUnreachable(f"{self._client.address}: malformed answer: {error}") from None
        except GrpcError as error:
            if error.code == StatusCode.OUT_OF_RANGE:
                if revision > self._revision():
                    raise FutureRevision(revision, self._revision()) from None
                self._retention.advance(revision + 1)
                raise Compacted(revision, self._retention.compacted) from None
            raise StoreUnreachable(f"{self._client.address}: {error.message}") from error

    def record(self, value: EtcdValue) -> KeyValue:
        """Return a value of etcd as a record of the store."""
        key = value.key.decode()[len(self.root) :]
        return KeyValue(key, value.value, value.modified, value.created)

    def key_of(self, value: EtcdValue) -> str:
        """Return the key of an object, empty for a record of the store itself."""
        text = value.key.decode()
        return text[len(self.root) :] if text.startswith(self.root) else ""

    def _event(self, event: EtcdEvent) -> StoreEvent | None:
        """Return a change of an object, with its previous value."""
        value, previous = event.value, event.previous
        if not (key := self.key_of(value)):
            return None
        created = value.created
        if event.is_delete:
            created = previous.created if previous else 0
        return StoreEvent(
            EventType.DELETE if event.is_delete else EventType.PUT,
            key,
            value.value,
            value.modified,
            created,
            previous.value if previous else None,
            previous.modified if previous else 0,
        )
