# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator

import pytest
from tests.controllers.builtin.builtin_world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A new server; the test starts controllers."""
    async with open_world() as made:
        yield made
