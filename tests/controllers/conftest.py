# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator

import pytest
from tests.runtime.runtime_world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A new API server on the clock of the event loop."""
    async with open_world() as opened:
        yield opened
