# SPDX-License-Identifier: Apache-2.0
"""An App whose engine runs on this machine, in a home of its own: what its tests share."""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.service.service_world import CURRENT_CONTEXT, World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

from rdd.vm.drivers.kubernetes_files import program_of

ROOT = Path(__file__).parents[3]
RELEASE = "v1.33.7+k3s3"


def short_home(script: Path, kubectl: Path) -> Iterator[World]:
    """Yield a home whose sockets have short paths; the instance in it is deleted afterwards."""
    home = Path(tempfile.mkdtemp(prefix="rdd", dir="/tmp"))
    for made in make_world(script, home / "h", kubectl):
        try:
            yield made
        finally:
            made.try_rdd("svc", "delete")
    shutil.rmtree(home, ignore_errors=True)


def app(world: World) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(world.kubectl("get", "app", "app", "-o", "json"))
    return found


def conditions(world: World) -> dict[str, tuple[str, str]]:
    obj = app(world)
    generation = obj["metadata"]["generation"]
    return {
        found["type"]: (found["status"], found["reason"])
        for found in obj["status"]["conditions"]
        if found["observedGeneration"] == generation
    }


def run_docker(world: World, docker: Path, *words: str, text: bytes | None = None) -> str:
    done = run_program([str(docker), *words], env=world.environment(), input=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def assert_context_is_current(world: World, docker: Path) -> None:
    assert run_docker(world, docker, *CURRENT_CONTEXT) == world.instance.name


def install_k3s(world: World) -> None:
    path = program_of(RELEASE, world.environment())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'#!/bin/sh\nexec env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable} -m tests.k3s "$@"\n'
    )
    path.chmod(0o755)
