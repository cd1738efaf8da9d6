# SPDX-License-Identifier: Apache-2.0
"""A write that is checked while the takeover of its controller is being committed."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rdd.api import errors
from rdd.apiserver.http.request import Request, User
from rdd.apiserver.server import ServerOptions, open_server
from rdd.client import Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS, LEASES, NAMESPACES
from rdd.runtime import Ownership
from rdd.store.sqlite.store import SqliteStore

ADMIN = User("admin", ("system:masters",))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    store = await SqliteStore.open(tmp_path / "state.db")
    server = await open_server(store, ServerOptions())
    yield Client(LocalTransport(server.handle, partial(Request, user=ADMIN)))
    await server.close()
    await store.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def take_over(client: Client) -> int:
    """Make another process the owner; return the revision."""
    taken = {"spec": {"holderIdentity": "heir-1", "leaseTransitions": 7}}
    lease = await client.patch(LEASES, "controller-c", taken, namespace="rdd-system")
    return int(lease["metadata"]["resourceVersion"])


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete"])
@pytest.mark.parametrize("head_start", range(4))
async def test_commits_no_write_after_the_takeover(
    client: Client, verb: str, head_start: int
) -> None:
    ownership = Ownership(client, "first", is_embedded=True)
    await ownership.start()
    claim = await ownership.acquire("c")
    fenced = ownership.client_for(claim)
    await client.create(CONFIG_MAPS, config_map("target"))
    writes = {
        "create": lambda: fenced.create(CONFIG_MAPS, config_map("new")),
        "update": lambda: fenced.update(CONFIG_MAPS, config_map("target", a="b")),
        "patch": lambda: fenced.patch(
            CONFIG_MAPS, "target", {"data": {"a": "b"}}, namespace="default"
        ),
        "delete": lambda: fenced.delete(CONFIG_MAPS, "target", namespace="default"),
    }

    async def write() -> int | None:
        for _ in range(head_start):  # an earlier or later step of the takeover
            await asyncio.sleep(0)
        try:
            await writes[verb]()
        except errors.Conflict:
            return None
        found = await client.list(CONFIG_MAPS, namespace="default")
        return max(int(item["metadata"]["resourceVersion"]) for item in found.items)

    ended, written = await asyncio.gather(take_over(client), write())
    assert written is None or written < ended
    with pytest.raises(errors.Conflict, match='is owned by "heir-1" in epoch 7'):
        await fenced.create(CONFIG_MAPS, config_map("later"))
    await ownership.stop()


async def test_frequent_lease_changes_do_not_block_the_owner(
    client: Client,
) -> None:
    ownership = Ownership(client, "first", is_embedded=True)
    await ownership.start()
    claim = await ownership.acquire("c")
    fenced = ownership.client_for(claim)
    stop = asyncio.Event()

    async def annotate() -> None:
        for count in itertools.count():
            if stop.is_set():
                return
            patch = {"metadata": {"annotations": {"n": str(count)}}}
            await client.patch(LEASES, "controller-c", patch, namespace="rdd-system")

    annotating = asyncio.create_task(annotate())
    passed = 0
    for count in range(200):
        try:
            await fenced.create(CONFIG_MAPS, config_map(f"c{count}"))
            passed += 1
        except errors.Conflict as error:
            assert "please try again" in error.message
    stop.set()
    await annotating
    assert passed and not claim.lost.is_set()
    await ownership.stop()


async def test_owner_can_write_its_own_lease(client: Client) -> None:
    ownership = Ownership(client, "first", is_embedded=True)
    await ownership.start()
    fenced = ownership.client_for(await ownership.acquire("c"))
    patch = {"metadata": {"annotations": {"a": "b"}}}
    await fenced.patch(LEASES, "controller-c", patch, namespace="rdd-system")
    assert await client.get(NAMESPACES, "rdd-system")
    await ownership.stop()
