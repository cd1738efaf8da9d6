# SPDX-License-Identifier: Apache-2.0
"""Shutdown notification: what asked for it is announced, waited for, and not kept."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial

import pytest

from rdd.api import names
from rdd.apiserver.http.request import Request, User
from rdd.apiserver.server import open_server
from rdd.client import Client, LocalTransport
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.daemon.managers.shutdown_notification import delete_stale_notifications, notify_shutdown
from rdd.store.memory import MemoryStore

ADMIN = User("admin", ("system:masters",))
LABELS = {"shutdown.rancherdesktop.io/notification": "true"}
ANNOTATION = "shutdown.rancherdesktop.io/shutdown"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    store = MemoryStore()
    server = await open_server(store)
    client = Client(LocalTransport(server.handle, partial(Request, user=ADMIN)))
    await client.create(NAMESPACES, {"metadata": {"name": names.SYSTEM_NAMESPACE}})
    yield client
    await server.close()
    await store.close()


async def create(client: Client, name: str, **metadata: object) -> None:
    body = {"metadata": {"name": name, "namespace": names.SYSTEM_NAMESPACE, **metadata}}
    await client.create(CONFIG_MAPS, body)


async def annotation(client: Client, name: str) -> str:
    found = await client.get(CONFIG_MAPS, name, namespace=names.SYSTEM_NAMESPACE)
    value: str = (found["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    return value


async def complete(client: Client, name: str) -> None:
    patch = {"metadata": {"annotations": {ANNOTATION: "complete"}}}
    await client.patch(CONFIG_MAPS, name, patch, namespace=names.SYSTEM_NAMESPACE)


async def pending(client: Client, name: str) -> None:
    events = client.watch(CONFIG_MAPS, namespace=names.SYSTEM_NAMESPACE)
    async with aclosing(events):
        async for event in events:
            metadata = event.object["metadata"]
            found = (metadata.get("annotations") or {}).get(ANNOTATION)
            if (metadata["name"], found) == (name, "pending"):
                return


async def test_shutdown_waits_until_all_are_complete_or_deleted(client: Client) -> None:
    await create(client, "one", labels=LABELS)
    await create(client, "two", labels=LABELS)
    await create(client, "bystander")
    waiting = asyncio.ensure_future(notify_shutdown(client, timeout_s=60))
    await pending(client, "one")
    await pending(client, "two")
    assert await annotation(client, "bystander") == ""
    await complete(client, "one")
    assert not waiting.done()
    await client.delete(CONFIG_MAPS, "two", namespace=names.SYSTEM_NAMESPACE)
    async with asyncio.timeout(60):
        await waiting


async def test_shutdown_does_not_wait_when_no_one_asked(client: Client) -> None:
    await create(client, "bystander")
    await notify_shutdown(client, timeout_s=0)
    assert await annotation(client, "bystander") == ""


async def test_completed_before_the_shutdown_is_asked_again(client: Client) -> None:
    await create(client, "early", labels=LABELS, annotations={ANNOTATION: "complete"})
    waiting = asyncio.ensure_future(notify_shutdown(client, timeout_s=60))
    await pending(client, "early")
    await complete(client, "early")
    async with asyncio.timeout(60):
        await waiting


async def test_crashed_program_does_not_keep_the_daemon(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await create(client, "crashed", labels=LABELS)
    with caplog.at_level(logging.WARNING):
        await notify_shutdown(client, timeout_s=0.01)
    assert "stopping without waiting longer for crashed" in caplog.text


async def test_notifications_of_an_earlier_run_are_deleted(client: Client) -> None:
    await create(client, "stale", labels=LABELS)
    await create(client, "bystander")
    await delete_stale_notifications(client)
    left = await client.list(CONFIG_MAPS, namespace=names.SYSTEM_NAMESPACE)
    shown = {item["metadata"]["name"] for item in left.items}
    assert "bystander" in shown
    assert "stale" not in shown
