# SPDX-License-Identifier: Apache-2.0
"""The content of a prefix as rows of the SQLite store, for backups and copies.

Leases are read page by page, because all keys of a large prefix do not fit into one message.
"""

import itertools
from collections.abc import AsyncIterator, Callable

from rdd.grpc.messages import Message, field
from rdd.store.contract import ScanPage
from rdd.store.etcd import requests
from rdd.store.etcd.client import EtcdClient
from rdd.store.etcd.requests import EtcdValue
from rdd.store.keys import ID_SHIFT, Row, prefix_end

_PAGE = 10_000


async def rows_of(
    client: EtcdClient, pages: AsyncIterator[ScanPage], clock: Callable[[], float]
) -> list[Row]:
    """Return live records as rows in commit order, with the time their leases end."""
    records = [record async for page in pages for record in page.records]
    leases = await _lease_ends(client, clock) if records else {}
    rows: list[Row] = []
    ordered = sorted(records, key=lambda record: record.revision)
    for revision, group in itertools.groupby(ordered, key=lambda record: record.revision):
        for position, record in enumerate(group):
            identity = revision << ID_SHIFT | position << 1
            expires = leases.get(record.key, 0)
            rows.append((identity, record.key, record.created, 0, expires, record.value))
    return rows


async def _lease_ends(client: EtcdClient, clock: Callable[[], float]) -> dict[str, int]:
    """Return the end of the lease of every key that has one, in ms since the epoch."""
    root = f"{client.address.prefix}/keys"
    leased = [value async for value in _keys(client, root) if value.lease]
    ends: dict[int, int] = {}
    for lease in {value.lease for value in leased}:
        answer = Message(await client.read(requests.LEASE_TTL, field(1, lease)))
        remaining = answer.signed(3)
        ends[lease] = int((clock() + max(remaining, 0)) * 1000)
    return {value.key.decode()[len(root) :]: ends[value.lease] for value in leased}


async def _keys(client: EtcdClient, root: str) -> AsyncIterator[EtcdValue]:
    """Yield all keys below a root, without values."""
    end = prefix_end(root)
    assert isinstance(end, str)
    start, more = root.encode(), True
    while more:
        request = requests.range_request(start, end.encode(), limit=_PAGE, keys_only=True)
        answer = requests.range_of(await client.read(requests.RANGE, request))
        for value in answer.values:
            yield value
            start = value.key + b"\0"
        more = answer.more
