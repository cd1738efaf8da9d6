# SPDX-License-Identifier: Apache-2.0
"""The small guest: boots in seconds, has no engine, and each test gets a new machine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.machine.qemu_world import World, world


@pytest.fixture
async def small(guests: Path, qemu_path: Path, guest_cache: Path) -> AsyncIterator[World]:
    async with world(guests / "small", guest_cache) as made:
        yield made
