# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap with the available Kubernetes versions."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers.app.app_world import APPS, app_object, apps, enabled, settled
from tests.controllers.controller_world import controller_environment, eventually, gone
from tests.runtime.runtime_world import World, open_world

from rdd.api import errors
from rdd.client.resources import CONFIG_MAPS, NAMESPACES
from rdd.controllers.app.k3s_versions import k3s_versions
from rdd.kinds.app import App

pytestmark = pytest.mark.looptime


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        await enabled(opened)
        yield opened


def published(obj: dict[str, Any]) -> bool:
    return "versions" in (obj.get("data") or {})


async def test_config_map_is_created_with_the_app(world: World) -> None:
    async with apps(world, None, k3s_versions(controller_environment())):
        await world.client.create(APPS, app_object(namespace="mine"))
        found = await eventually(world, CONFIG_MAPS, "k3s-versions", published, namespace="mine")
        versions, channels = (json.loads(found["data"][key]) for key in ("versions", "channels"))
        assert versions["1.32.11"] == "v1.32.11+k3s3"
        assert channels["stable"] == "1.34.6"
        assert found["metadata"]["labels"] == {
            "app.kubernetes.io/name": "rdd-k3s-versions",
            "app.kubernetes.io/component": "k3s-versions",
            "app.kubernetes.io/managed-by": "rdd-k3s-versions",
            "app.kubernetes.io/instance": "app",
        }
        assert found["metadata"]["ownerReferences"][0]["kind"] == "App"


async def test_changes_are_reverted_and_other_keys_kept(world: World) -> None:
    async with apps(world, None, k3s_versions(controller_environment())):
        await world.client.create(APPS, app_object())
        found = await eventually(world, CONFIG_MAPS, "k3s-versions", published)
        patch = {
            "metadata": {"labels": {"app.kubernetes.io/name": "x", "mine": "too"}},
            "data": {"versions": "{}", "channels": None, "other": "kept"},
        }
        await world.client.patch(CONFIG_MAPS, "k3s-versions", patch, namespace="default")
        again = await eventually(
            world,
            CONFIG_MAPS,
            "k3s-versions",
            lambda obj: obj["data"] == {**found["data"], "other": "kept"},
        )
        assert again["metadata"]["labels"] == {**found["metadata"]["labels"], "mine": "too"}


async def test_rejects_deletion_while_the_app_exists(world: World) -> None:
    async with apps(world, None, k3s_versions(controller_environment())):
        await world.client.create(APPS, app_object())
        await eventually(world, CONFIG_MAPS, "k3s-versions", published)
        with pytest.raises(
            errors.Forbidden, match='configmaps "k3s-versions" is forbidden: it belongs to App'
        ):
            await world.client.delete(CONFIG_MAPS, "k3s-versions", namespace="default")
        await settled(world)
        await world.client.delete(APPS, "app")
        await gone(world, App, "app")
        await gone(world, CONFIG_MAPS, "k3s-versions")


async def test_allows_deletion_of_other_config_maps(world: World) -> None:
    async with apps(world, None, k3s_versions(controller_environment())):
        await world.client.create(APPS, app_object())
        found = await eventually(world, CONFIG_MAPS, "k3s-versions", published)
        labels = found["metadata"]["labels"]
        other = {"metadata": {"name": "other", "namespace": "default", "labels": labels}}
        await world.client.create(CONFIG_MAPS, other)
        await world.client.delete(CONFIG_MAPS, "other", namespace="default")


async def test_existing_config_map_is_adopted(world: World) -> None:
    there = {"metadata": {"name": "k3s-versions", "namespace": "default"}, "data": {"mine": "x"}}
    await world.client.create(CONFIG_MAPS, there)
    async with apps(world, None, k3s_versions(controller_environment())):
        await world.client.create(APPS, app_object())
        found = await eventually(world, CONFIG_MAPS, "k3s-versions", published)
        assert found["data"]["mine"] == "x"
        assert found["metadata"]["ownerReferences"][0]["kind"] == "App"


async def test_waits_for_the_namespace(world: World) -> None:
    async with apps(world, None, k3s_versions(controller_environment())):
        await world.client.create(
            NAMESPACES, {"metadata": {"name": "mine", "finalizers": ["test/keep"]}}
        )
        await world.client.delete(NAMESPACES, "mine")
        await world.client.create(APPS, app_object(namespace="mine"))
        with pytest.raises(errors.NotFound):
            await world.client.get(CONFIG_MAPS, "k3s-versions", namespace="mine")
