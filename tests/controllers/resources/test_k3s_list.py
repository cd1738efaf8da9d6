# SPDX-License-Identifier: Apache-2.0
"""The publisher's list of k3s releases: fetched with consent, and then selectable."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.controllers.app.app_world import APPS, FakeMachines, app_object, enabled, works
from tests.controllers.controller_world import controller_environment, eventually, managed
from tests.origin import Origin, serving
from tests.runtime.runtime_world import World

from rdd.api import errors
from rdd.api.types import Object
from rdd.client.resources import CONFIG_MAPS
from rdd.controllers.app.app import app
from rdd.controllers.app.k3s_versions import k3s_versions
from rdd.controllers.app.version_monitors import lists_of_tools
from rdd.controllers.resources.controller import urlmonitor
from rdd.kinds.urlmonitor import URLMonitor
from rdd.runtime import resource_of

MONITORS = resource_of(URLMonitor)
LIST = {"data": [{"name": "stable", "latest": "v1.99.1+k3s2"}]}


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with serving() as made:
        made.texts["/update.k3s.io/v1-release/channels"] = json.dumps(LIST)
        yield made


def lists(version: str) -> Any:
    return lambda obj: version in json.loads((obj.get("data") or {}).get("versions", "{}"))


async def patched(world: World, spec: Object) -> Object:
    return await world.client.patch(APPS, "app", {"spec": spec})


async def test_list_is_fetched_with_consent_only_and_its_releases_can_be_chosen(
    world: World, origin: Origin, tmp_path: Path
) -> None:
    env = controller_environment(tmp_path)
    machines = FakeMachines()
    await enabled(world)
    controllers = (app(env, probe=works), machines.controller(), k3s_versions(env), urlmonitor(env))
    async with managed(world, *controllers):
        downloads = {"mirror": origin.base}
        await world.client.create(APPS, app_object(downloads=downloads))
        await eventually(world, CONFIG_MAPS, "k3s-versions", lists("1.33.7"))
        with pytest.raises(errors.ApiError, match=r"1\.99\.1.* is not supported"):
            await patched(world, {"kubernetes": {"version": "1.99.1"}})
        with pytest.raises(errors.NotFound):
            await world.client.get(MONITORS, "k3s-versions")
        assert origin.paths == []

        await patched(world, {"downloads": {"automatic": True}})
        await eventually(world, CONFIG_MAPS, "k3s-versions", lists("1.99.1"))
        for version in ("1.99.1", "stable"):
            changed = await patched(world, {"kubernetes": {"version": version}})
            assert changed["spec"]["kubernetes"]["version"] == "1.99.1+k3s2"

        # The lists of tools are monitored, too; a monitor that is deleted is created again.
        names = ("k3s-versions", *lists_of_tools())
        for name in names:
            await eventually(world, MONITORS, name, lambda obj: obj["status"].get("localPath"))
        await world.client.delete(MONITORS, "helm-versions")
        await eventually(world, MONITORS, "helm-versions", lambda obj: obj)

        await patched(world, {"downloads": {"automatic": None}})
        for name in names:
            await eventually(world, MONITORS, name, lambda obj: obj["spec"].get("suspended"))
        found = await world.client.get(CONFIG_MAPS, "k3s-versions", namespace="default")
        assert "1.99.1" in found["data"]["versions"]
    lists_read = {
        f"/{url.partition('://')[2].partition('?')[0]}" for url in lists_of_tools().values()
    }
    assert set(origin.paths) == {"/update.k3s.io/v1-release/channels", *lists_read}
