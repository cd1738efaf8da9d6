# SPDX-License-Identifier: Apache-2.0
"""demo: counts messages, reports progress in conditions and events, serves endpoints."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import WSMsgType
from tests.controllers.controller_world import (
    connected,
    controller_environment,
    event_about,
    eventually,
    gone,
    managed,
    reasons,
)
from tests.runtime.runtime_world import World, open_world

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.resources import CUSTOM_RESOURCE_DEFINITIONS
from rdd.controllers.app.demo import PAUSE_S, demo
from rdd.kinds.crd import definition_of
from rdd.kinds.demo import Demo
from rdd.runtime import resource_of
from rdd.runtime.definitions import install_definition

fake_time = pytest.mark.looptime

DEMOS = resource_of(Demo)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


def made(count: int, message: str = "hello") -> Object:
    return {"metadata": {"name": "demo"}, "spec": {"message": message, "count": count}}


def states(obj: Object) -> dict[str, tuple[str, str]]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return {each["type"]: (each["status"], each["reason"]) for each in conditions}


COMPLETED = {
    "Ready": ("True", "Ready"),
    "Processing": ("False", "Completed"),
    "Completed": ("True", "Completed"),
}
IN_PROGRESS = {
    "Ready": ("True", "Processing"),
    "Processing": ("True", "InProgress"),
    "Completed": ("False", "InProgress"),
}


def is_completed(obj: Object) -> bool:
    return states(obj) == COMPLETED


@fake_time
async def test_processes_the_message_count_times(world: World) -> None:
    async with managed(world, demo(controller_environment())):
        await world.client.create(DEMOS, made(3))
        done = await eventually(world, DEMOS, "demo", is_completed)
        await event_about(world, "demo", "Completed")
    status = done["status"]
    assert status["processedCount"] == 3
    assert status["lastProcessed"].startswith("2027-01-15T08:0")
    assert "finalizers" not in done["metadata"]
    for condition in status["conditions"]:
        assert condition["observedGeneration"] == done["metadata"]["generation"]
    found = await reasons(world, "demo")
    assert sorted(found["Processing"]) == [f"Processed message {i} of 3: hello" for i in (1, 2, 3)]
    assert found["Completed"] == ["Processed all 3 messages"]
    assert "Condition Completed is True: Completed" in found["ConditionChanged"]


@fake_time
async def test_count_can_be_changed(world: World) -> None:
    async with managed(world, demo(controller_environment())):
        await world.client.create(DEMOS, made(1))
        await eventually(world, DEMOS, "demo", is_completed)
        await world.client.patch(DEMOS, "demo", {"spec": {"count": 4}})
        more = await eventually(
            world,
            DEMOS,
            "demo",
            lambda obj: is_completed(obj) and obj["status"]["processedCount"] == 4,
        )
        assert more["status"]["conditions"][0]["observedGeneration"] == 2
        await world.client.patch(DEMOS, "demo", {"spec": {"count": -3}})
        less = await eventually(
            world,
            DEMOS,
            "demo",
            lambda obj: obj["status"]["conditions"][0].get("observedGeneration") == 3,
        )
    assert less["status"]["processedCount"] == 4
    assert is_completed(less)


@fake_time
async def test_many_messages_are_throttled(world: World) -> None:
    """A count of billions must not occupy the server."""
    begun = asyncio.get_running_loop().time()
    async with managed(world, demo(controller_environment())):
        await world.client.create(DEMOS, made(2**31 - 1))
        found = await eventually(
            world, DEMOS, "demo", lambda obj: (obj.get("status") or {}).get("processedCount") == 20
        )
    assert states(found) == IN_PROGRESS
    assert asyncio.get_running_loop().time() - begun >= 9 * PAUSE_S


@fake_time
async def test_concurrent_status_writes_are_tolerated(world: World) -> None:
    async with managed(world, demo(controller_environment())):
        await world.client.create(DEMOS, made(5))
        for value in range(5):
            patch = {"status": {"lastProcessed": f"by hand {value}"}}
            await world.client.patch(DEMOS, "demo", patch, subresource="status")
        done = await eventually(world, DEMOS, "demo", is_completed)
    assert done["status"]["processedCount"] == 5


@fake_time
async def test_rejects_other_names_and_deletes_old_objects(world: World) -> None:
    lax = definition_of(Demo)
    for version in lax["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"].pop("x-kubernetes-validations")
    await install_definition(world.client, lax)
    await world.client.create(DEMOS, {"metadata": {"name": "old"}})
    async with managed(world, demo(controller_environment())):
        await gone(world, DEMOS, "old")
        with pytest.raises(errors.Invalid) as rejected:
            await world.client.create(DEMOS, {"metadata": {"name": "other"}})
    assert "Demo resource must be named 'demo'" in rejected.value.message
    stored = await world.client.get(CUSTOM_RESOURCE_DEFINITIONS, lax["metadata"]["name"])
    assert stored["spec"] == definition_of(Demo)["spec"]


async def test_hello_shows_the_request(world: World) -> None:
    async with managed(world, demo(controller_environment())), connected(world) as session:
        headers = {"x-one": "1", "X-Quoted": 'a "b"', "User-Agent": "me", "Authorization": "x"}
        async with session.get(
            "/passthrough/demo/hello/a%20path/", headers=headers, skip_auto_headers=("Accept",)
        ) as response:
            assert response.status == 200
            assert response.content_type == "text/plain"
            text = await response.text()
    assert text.splitlines() == [
        "Hello, world!",
        'Accept-Encoding = ["gzip, deflate"]',
        'User-Agent = ["me"]',
        'X-Forwarded-For = ["127.0.0.1"]',
        'X-One = ["1"]',
        'X-Quoted = ["a \\"b\\""]',
        'Path = "/a path/"',
    ]


async def test_websocket_sends_one_message(world: World) -> None:
    async with managed(world, demo(controller_environment())), connected(world) as session:
        async with session.ws_connect("/passthrough/demo/websocket/") as ws:
            assert await ws.receive_str() == "hello from websocket\n"
            last = await ws.receive()
            assert (last.type, last.data) == (WSMsgType.CLOSE, 1000)
        async with session.get("/passthrough/demo/websocket/") as response:
            assert response.status == 400
        with pytest.raises(aiohttp.WSServerHandshakeError) as rejected:
            await session.ws_connect(
                "/passthrough/demo/websocket/", origin="https://anywhere.example"
            )
        assert rejected.value.status == 403  # a page of another site
        with pytest.raises(aiohttp.WSServerHandshakeError) as rejected:
            await session.ws_connect("/passthrough/demo/other/")
        assert rejected.value.status == 404


async def test_endpoints_are_unavailable_without_the_controller(
    world: World,
) -> None:
    async with connected(world) as session:

        async def status() -> int:
            async with session.get("/passthrough/demo/hello/") as response:
                return response.status

        assert await status() == 404
        async with managed(world, demo(controller_environment())):
            assert await status() == 200
        assert await status() == 503
