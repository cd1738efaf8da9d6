# SPDX-License-Identifier: Apache-2.0
"""hostinfo: one object with the resources of the host."""

import os
from pathlib import Path

import pytest
from tests.controllers.controller_world import controller_environment, eventually, managed
from tests.runtime.runtime_world import World

from rdd.api import errors
from rdd.api.quantity import Quantity
from rdd.apiserver.http import responses
from rdd.apiserver.http.request import AnyResponse, Request
from rdd.controllers.rdd.hostinfo import hostinfo
from rdd.host import hardware
from rdd.kinds.hostinfo import HostInfo
from rdd.runtime import resource_of

pytestmark = pytest.mark.looptime

INFOS = resource_of(HostInfo)


def total_memory() -> int:
    return int(Path("/proc/meminfo").read_text().split()[1]) * 1024


async def test_creates_the_object_with_cpus_and_memory(world: World) -> None:
    async with managed(world, hostinfo(controller_environment())):
        found = await eventually(world, INFOS, "system", lambda obj: obj.get("status"))
    status = found["status"]
    assert status["cpus"] == os.cpu_count()
    assert Quantity.parse(status["memory"]).value() == total_memory()
    assert status["memory"].endswith("i")


async def test_recreates_the_object_and_reverts_changes(
    world: World,
) -> None:
    async with managed(world, hostinfo(controller_environment())):
        first = await eventually(world, INFOS, "system", lambda obj: obj.get("status"))
        await world.client.delete(INFOS, "system")
        uid = first["metadata"]["uid"]
        second = await eventually(
            world, INFOS, "system", lambda obj: obj.get("status") and obj["metadata"]["uid"] != uid
        )
        wrong = {"status": {"cpus": 1000}}
        await world.client.patch(INFOS, "system", wrong, subresource="status")
        third = await eventually(
            world, INFOS, "system", lambda obj: obj["status"]["cpus"] == hardware.cpus()
        )
    assert second["status"] == first["status"] == third["status"]


async def test_ignores_other_objects_of_the_kind(world: World) -> None:
    async with managed(world, hostinfo(controller_environment())):
        await world.client.create(INFOS, {"metadata": {"name": "other"}})
        await eventually(world, INFOS, "system", lambda obj: obj.get("status"))
        other = await world.client.get(INFOS, "other")
    assert "status" not in other


async def test_retries_every_five_seconds_if_the_server_rejects(world: World) -> None:
    inner, rejections = world.server.handle, [1, 1, 1]

    async def handle(request: Request) -> AnyResponse:
        if request.info.resource == "hostinfos" and request.method == "POST" and rejections:
            rejections.pop()
            return responses.error(request, errors.InternalError("not now"))
        return await inner(request)

    world.server.handle = handle  # type: ignore[method-assign]
    async with managed(world, hostinfo(controller_environment())):
        await eventually(world, INFOS, "system", lambda obj: obj.get("status"))
    assert rejections == []
