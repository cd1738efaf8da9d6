# SPDX-License-Identifier: Apache-2.0
"""A daemon whose engine is a real dockerd that the test has started: the test writes the App."""

import json
from collections.abc import Iterator
from pathlib import Path

from tests.controllers.containers.engine_parts import Dockerd
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world

RUNNING = {
    "type": "Running",
    "status": "True",
    "reason": "Started",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
READY = ("wait", "app/app", "--for=condition=ContainerEngineReady", "--timeout=60s")


def engine_desktop(
    engine: Dockerd, script: Path, kubectl: Path, home: Path, start: tuple[str, ...]
) -> Iterator[World]:
    """Yield a home with a daemon, started by a command, that mirrors the engine."""
    for world in make_world(script, home, kubectl):
        instance = world.instance
        instance.short_dir.mkdir(parents=True)
        instance.docker_socket.symlink_to(engine.socket)
        world.rdd(*start)
        app = {
            "apiVersion": "app.rancherdesktop.io/v1alpha1",
            "kind": "App",
            "metadata": {"name": "app"},
            "spec": {"running": True, "namespace": "default"},
        }
        (world.home / "app.json").write_text(json.dumps(app))
        world.kubectl("create", "-f", str(world.home / "app.json"))
        status = json.dumps({"status": {"conditions": [RUNNING]}})
        world.kubectl("patch", "app/app", "--subresource=status", "--type=merge", "-p", status)
        world.kubectl(*READY)
        yield world
