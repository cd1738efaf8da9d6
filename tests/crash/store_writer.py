# SPDX-License-Identifier: Apache-2.0
"""A process that writes to a store until it is killed.

Usage: store_writer.py PATH SEED. Several tasks write, renew, delete and compact
at once; every acknowledged change is one line on standard output, written
after the store acknowledged it:

    put KEY REVISION NUMBER        delete KEY REVISION 0

`value_of` derives the value from key and number, so that the parent detects
torn values. Small limits make compaction, checkpoints and reservations
frequent, so that kills hit them as well.
"""

import asyncio
import hashlib
import os
import random
import sys
from pathlib import Path

from rdd.store.contract import ANY, Delete, Put
from rdd.store.options import StoreOptions
from rdd.store.sqlite import writer
from rdd.store.sqlite.store import SqliteStore

TASKS = 8
KEYS_PER_TASK = 5
OPTIONS = StoreOptions(keep_revisions=300, keep_s=0, compact_every=50)


def value_of(key: str, number: int) -> bytes:
    """Return a value of 50 bytes to 12 KiB that contains its key and number."""
    digest = hashlib.sha256(f"{key} {number}".encode()).hexdigest()
    return f"{number} ".encode() + digest.encode() * (1 + int(digest[:2], 16) % 200)


def number_of(value: bytes) -> int:
    """Return the number of a value."""
    return int(value.split(b" ", 1)[0])


def report(kind: str, key: str, revision: int, number: int) -> None:
    """Print a line atomically: it is shorter than the atomic size of a pipe."""
    os.write(1, f"{kind} {key} {revision} {number}\n".encode())


async def write(store: SqliteStore, task: int, seed: int, live: dict[str, tuple[int, int]]) -> None:
    """Change the keys of one task forever."""
    choose = random.Random(f"{seed}/{task}")
    while True:
        key = f"/task-{task}/{choose.randrange(KEYS_PER_TASK)}"
        revision, number = live.get(key, (0, 0))
        if revision and choose.random() < 0.2:
            deleted = await store.commit([Delete(key, expect=revision)])
            live[key] = (0, number)
            report("delete", key, deleted, 0)
            continue
        number += 1
        hint = value_of(key, number - 1) if revision and choose.random() < 0.5 else None
        expect = revision if choose.random() < 0.8 else ANY
        put = Put(key, value_of(key, number), expect=expect, previous=hint)
        written = await store.commit([put], durable=choose.random() < 0.7)
        live[key] = (written, number)
        report("put", key, written, number)


async def main(path: Path, seed: int) -> None:
    """Write until killed."""
    writer.CHECKPOINT_PAGES = 60
    store = await SqliteStore.open(path, options=OPTIONS)
    report("open", "-", store.revision, 0)
    # Numbers continue from the stored ones; a deleted key starts after the crash.
    start = store.revision * 1_000
    live = {f"/task-{task}/{n}": (0, start) for task in range(TASKS) for n in range(KEYS_PER_TASK)}
    for record in (await store.scan("")).records:
        live[record.key] = (record.revision, number_of(record.value))
    async with asyncio.TaskGroup() as tasks:
        for task in range(TASKS):
            tasks.create_task(write(store, task, seed, live))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
