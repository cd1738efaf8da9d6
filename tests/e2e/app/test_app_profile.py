# SPDX-License-Identifier: Apache-2.0
"""A real engine that runs when an administrator's profile appears, changes and goes."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.app.filled_world import assert_filled, docker, fill, world
from tests.e2e.service.profile_world import Profiled, with_private_etc
from tests.e2e.service.service_world import World

__all__ = ["world"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of its own needs root here"),
    pytest.mark.timeout(400),
]

REGISTRY = "registry.example.com:5000"
LOCKS = f"""
app:
  locked:
    registries: {{insecure: ["{REGISTRY}"]}}
"""


@pytest.fixture
def profiled(world: World, tmp_path: Path, real_part: Callable[[str], Path]) -> Iterator[Profiled]:
    yield from with_private_etc(world, tmp_path, real_part("unshare"))


def insecure(world: World) -> list[str]:
    found = json.loads(docker(world, "info", "--format", "{{json .RegistryConfig}}"))
    return [name for name, one in found["IndexConfigs"].items() if not one["Secure"]]


def test_running_engine_is_reported_and_neither_destroyed_nor_started_again(
    profiled: Profiled,
) -> None:
    world = profiled.world
    fill(world)
    machine = world.instance.lima_home / "rd"
    pid = (machine / "host.pid").read_text()

    # What runs otherwise than the profile demands goes on, also over a crash of the daemon.
    profiled.write(LOCKS)
    world.until(lambda: profiled.settled()[0] == "NotAllowed")
    assert f'spec.registries.insecure is locked to ["{REGISTRY}"]' in profiled.settled()[1]
    assert f"by {profiled.path}:4" in profiled.settled()[1]
    assert_filled(world)
    world.crash()
    world.rdd("service", "start")
    world.until(lambda: profiled.settled()[0] == "NotAllowed")
    assert_filled(world)
    assert (machine / "host.pid").read_text() == pid

    # It can be stopped, but neither restarted nor started, and no container is lost.
    refused = world.try_rdd("restart")
    assert (refused.code != 0, f"by {profiled.path}:4" in refused.err) == (True, True), refused
    assert_filled(world)
    world.rdd("stop")
    refused = world.try_rdd("start")
    assert (refused.code != 0, f"by {profiled.path}:4" in refused.err) == (True, True), refused

    # All locks are accepted at once; a template that was edited on disk is replaced.
    world.rdd("profile", "accept", "--wait=false")
    with (machine / "lima.yaml").open("a") as template:
        template.write("mounts: [{location: /etc}]\n")
    world.rdd("start")
    assert_filled(world)
    assert insecure(world) == [REGISTRY]
    assert "/etc}" not in (machine / "lima.yaml").read_text()
    refused = world.try_rdd("set", "registries.insecure=")
    assert f'locked to ["{REGISTRY}"] by {profiled.path}:4' in refused.last[1]

    # Without the profile the setting is free again.
    profiled.remove()
    world.rdd("set", "registries.insecure=")
    assert insecure(world) == []
    assert_filled(world)
