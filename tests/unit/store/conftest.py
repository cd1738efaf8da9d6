# SPDX-License-Identifier: Apache-2.0
"""Fixtures: every test with `store` or `harness` runs on both implementations."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.unit.store.harness import AnyStore, Harness

from rdd.store.sqlite.store import SqliteStore


@pytest.fixture(params=["sqlite", "memory"])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(request.param, tmp_path)
    yield harness
    await harness.close()


@pytest.fixture
async def store(harness: Harness) -> AnyStore:
    return await harness.open()


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness of the SQLite store only."""
    harness = Harness("sqlite", tmp_path)
    yield harness
    await harness.close()


@pytest.fixture
async def sqlite_store(disk: Harness) -> SqliteStore:
    store = await disk.open()
    assert isinstance(store, SqliteStore)
    return store
