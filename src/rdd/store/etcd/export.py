# SPDX-License-Identifier: Apache-2.0
"""The content of a prefix as rows of the SQLite store, for backups and copies."""

import itertools
from collections.abc import AsyncIterator, Callable

from rdd.grpc.messages import Message, field
from rdd.store.contract import ScanPage
from rdd.store.etcd import requests
from rdd.store.etcd.client import EtcdClient
from rdd.store.keys import ID_SHIFT, Row, prefix_end


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
    end = prefix_end(root)
    assert isinstance(end, str)
    request = requests.range_request(root.encode(), end.encode(), keys_only=True)
    answer = Message(await client.read(requests.RANGE, request))
    found = [requests.value_of(message) for message in answer.messages(2)]
    ends: dict[int, int] = {}
    for lease in {value.lease for value in found if value.lease}:
        answer = Message(await client.read(requests.LEASE_TTL, field(1, lease)))
        remaining = answer.signed(3)
        ends[lease] = int((clock() + max(remaining, 0)) * 1000)
    return {value.key.decode()[len(root) :]: ends[value.lease] for value in found if value.lease}
