# SPDX-License-Identifier: Apache-2.0
"""Fixtures for machines."""

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.vm.machine_world import World, a_world


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """A world with its own LIMA_HOME, with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="rdd-vm-") as path:
        async with a_world(Path(path), monkeypatch) as found:
            yield found
