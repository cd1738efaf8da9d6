# SPDX-License-Identifier: Apache-2.0
"""Fill the store of a stopped server.

A million creates over HTTP take minutes and measure nothing new. The objects are copies of one
that the server itself has written, with another name and uid, so they are stored exactly as the
server stores them.
"""

import asyncio
import uuid
from pathlib import Path

from rdd.store.contract import Put
from rdd.store.sqlite.store import SqliteStore

BATCH = 2_000
PREFIX = "/registry/configmaps/"


def database(home: Path) -> Path:
    """Return the file of the store below a home directory."""
    (found,) = home.glob(".local/share/*/db/state.db")
    return found


def fill(home: Path, template: str, namespace: str, count: int) -> int:
    """Add copies of an object, named `<template>-<number>`; return the bytes of one."""
    return asyncio.run(_fill(database(home), template, namespace, count))


async def _fill(path: Path, template: str, namespace: str, count: int) -> int:
    store = await SqliteStore.open(path)
    try:
        found = await store.get(f"{PREFIX}{namespace}/{template}")
        assert found is not None, "the template does not exist"
        value = found.value
        name = b'"name":"%b"' % template.encode()
        at = value.index(b'"uid":"') + 7

        for first in range(0, count, BATCH):
            puts = []
            for number in range(first, min(count, first + BATCH)):
                copied = value[:at] + str(uuid.uuid4()).encode() + value[at + 36 :]
                text = f"{template}-{number:07}"
                copied = copied.replace(name, b'"name":"%b"' % text.encode(), 1)
                puts.append(Put(f"{PREFIX}{namespace}/{text}", copied, 0))
            await store.commit(puts)
        return len(value) + 8
    finally:
        await store.close()
