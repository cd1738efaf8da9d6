# SPDX-License-Identifier: Apache-2.0
"""Copies of a whole store between SQLite and etcd.

Into etcd the content is written in batches. While that goes on, the prefix belongs to "an
incomplete copy": no control plane opens it, and the same copy started again continues with what
is missing or different. At the end everything is read back and compared, and only then does the
prefix get its owner. Into SQLite the copy is a file that appears under its name when it is
complete (`EtcdStore.backup`), so there is nothing to continue.

Revisions are those of the target: clients list again, as after a restore of etcd. Keys with a
time to live keep their remaining time.
"""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from rdd.host.directories import make_private_dir
from rdd.store.contract import Damaged, Delete, KeyValue, Op, Put, StoreError, StoreInUse
from rdd.store.etcd.address import EtcdAddress
from rdd.store.etcd.client import EtcdClient
from rdd.store.etcd.ownership import owner_of, set_owner
from rdd.store.etcd.store import EtcdStore
from rdd.store.options import StoreOptions
from rdd.store.sqlite import schema
from rdd.store.sqlite.reader import in_thread
from rdd.store.sqlite.store import SqliteStore

_BATCH_OPS = 90
_BATCH_BYTES = 1_000_000  # etcd's request limit is 1.5 MiB
_MIN_TTL_S = 1.0

Progress = Callable[[int, int], None]
"""Called with the number of copied keys and of all keys."""


async def copy_to_etcd(
    database: Path, address: EtcdAddress, *, owner: str, progress: Progress
) -> int:
    """Copy a database into an empty prefix, or continue; return the number of keys.

    Raises StoreError, InvalidAddress.
    """
    incomplete = f"an incomplete copy for {owner}"
    await _refuse_used_prefix(address, incomplete)
    options = StoreOptions()
    source = await SqliteStore.open(database, options=options)
    try:
        target = await EtcdStore.open(address, owner=incomplete)
        try:
            records = (await source.scan("")).records
            ends = await in_thread("store-expiry", _expiry_times, database)
            await _write(records, ends, target, options.clock(), progress)
            await _verify(records, target)
            await set_owner(target.client, owner)
        finally:
            await target.close()
    finally:
        await source.close()
    return len(records)


async def copy_to_sqlite(address: EtcdAddress, database: Path, *, owner: str) -> int:
    """Copy a prefix into a database, replacing it; return the number of keys. Raises StoreError."""
    await _refuse_unused_prefix(address)
    source = await EtcdStore.open(address, owner=owner)
    try:
        make_private_dir(database.parent)
        page = await source.scan("")
        await source.backup(database, revision=page.revision)
    finally:
        await source.close()
    copy = await SqliteStore.open(database)
    try:
        found = {record.key: record.value for record in (await copy.scan("")).records}
    finally:
        await copy.close()
    if found != {record.key: record.value for record in page.records}:
        raise Damaged(f'the copy "{database}" differs from {address}')
    return len(found)


async def _refuse_used_prefix(address: EtcdAddress, incomplete: str) -> None:
    found = await _owner(address)
    if found and found != incomplete:
        raise StoreInUse(f"{address} is not empty: it belongs to {found}; choose another prefix")


async def _refuse_unused_prefix(address: EtcdAddress) -> None:
    """Refuse what opening it would claim: a mistyped prefix is no empty control plane."""
    if not await _owner(address):
        raise StoreError(f"{address} is not the store of a control plane; check the prefix")


async def _owner(address: EtcdAddress) -> str:
    client = EtcdClient(address)
    try:
        return await owner_of(client)
    finally:
        await client.close()


def _expiry_times(database: Path) -> dict[str, int]:
    with contextlib.closing(schema.connect_reader(database)) as connection:
        return {key: expires for key, _, _, expires in connection.execute(schema.LIVE) if expires}


async def _write(
    records: Sequence[KeyValue],
    ends: dict[str, int],
    target: EtcdStore,
    now_s: float,
    progress: Progress,
) -> None:
    present = {record.key: record for record in (await target.scan("")).records}
    wanted = {record.key for record in records}
    batch: list[Op] = [Delete(key) for key in present if key not in wanted]
    while len(batch) > _BATCH_OPS:
        await target.commit(batch[:_BATCH_OPS])
        del batch[:_BATCH_OPS]
    size = 0
    for done, record in enumerate(records):
        found = present.get(record.key)
        if found is not None and found.value == record.value:
            continue
        if len(batch) >= _BATCH_OPS or size + len(record.value) > _BATCH_BYTES:
            await target.commit(batch)
            batch, size = [], 0
            progress(done, len(records))
        expires = ends.get(record.key, 0)
        ttl_s = max(expires / 1000 - now_s, _MIN_TTL_S) if expires else 0
        batch.append(Put(record.key, record.value, ttl_s=ttl_s))
        size += len(record.value)
    if batch:
        await target.commit(batch)
    progress(len(records), len(records))


async def _verify(records: Sequence[KeyValue], target: EtcdStore) -> None:
    """Compare the copy with its source. Raises Damaged."""
    found = {record.key: record.value for record in (await target.scan("")).records}
    for record in records:
        if found.pop(record.key, None) != record.value:
            raise Damaged(f'the copy differs at "{record.key}"; run the same command again')
    if found:
        raise Damaged(f'the copy has {len(found)} further keys, e.g. "{min(found)}"')
