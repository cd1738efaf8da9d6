# SPDX-License-Identifier: Apache-2.0
"""The engine of a test file, and controllers that mirror it for each of its tests.

A dockerd takes a second to start, so the tests of a file share one; what a test made is removed
before the next one. Files with another engine define fixtures of their own.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.controllers.containers.engine_parts import Dockerd, dockerd
from tests.controllers.containers.engine_world import World, running_world


@pytest.fixture(scope="module")
def docker(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dockerd]:
    with dockerd(real_part, tmp_path_factory.mktemp("d")) as engine:
        yield engine


@pytest.fixture
async def world(docker: Dockerd, tmp_path: Path) -> AsyncIterator[World]:
    docker.clear()
    async with running_world(tmp_path, docker) as made:
        yield made
