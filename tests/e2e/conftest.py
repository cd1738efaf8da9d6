# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that run real programs."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program


@pytest.fixture
def world(rdd_script: Path, tmp_path: Path, kubectl: Path) -> Iterator[World]:
    """Create a home for rdd; the daemons in it end with the test."""
    yield from make_world(rdd_script, tmp_path / "h", kubectl)


@pytest.fixture
def mounted(world: World) -> Iterator[Callable[..., Path]]:
    """Return a function that mounts a small file system in memory, which needs root."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    points: list[Path] = []

    def mount(point: Path, *, options: str = "size=1m") -> Path:
        point.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)]
        done = run_program(command)
        if done.returncode != 0:
            pytest.skip(f"root cannot mount on this machine: {done.stderr.strip()}")
        points.append(point)
        return point

    yield mount
    world.close()  # finds its daemons only while their homes are mounted
    for point in reversed(points):
        if os.path.ismount(point):
            run_program(["umount", "--lazy", str(point)], check=True)
