# SPDX-License-Identifier: Apache-2.0
"""A home with an App of the type host, a volume and a container that uses it."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.host_world import image
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program


@pytest.fixture
def world(rdd_script: Path, kubectl: Path, real_part: Callable[[str], Path]) -> Iterator[World]:
    """Create a home whose sockets have short paths; its instance is not the default one."""
    for name in ("dockerd", "docker", "iptables"):
        real_part(name)
    home = Path(tempfile.mkdtemp(prefix="rdd", dir="/tmp"))
    for made in make_world(rdd_script, home / "h", kubectl):
        made.suffix = "t1"
        try:
            yield made
        finally:
            made.try_rdd("svc", "delete", "--no-trash")
    shutil.rmtree(home, ignore_errors=True)


def docker(world: World, *words: str, text: bytes | None = None) -> str:
    command = ["docker", "--context", world.instance.name, *words]
    done = run_program(command, env=world.environment(), input=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def fill(world: World) -> None:
    """Start the App and create a volume with a file and a container that uses it."""
    world.rdd("set", "running=true", "virtualMachine.type=host")
    docker(world, "import", "-", "base", text=image())
    docker(world, "volume", "create", "data")
    docker(world, "create", "--name", "web", "-v", "data:/data", "base", "true")


def assert_filled(world: World) -> None:
    assert docker(world, "ps", "-a", "--format", "{{.Names}}") == "web"
    assert docker(world, "volume", "ls", "-q") == "data"
