# SPDX-License-Identifier: Apache-2.0
"""Fixtures: every test with `store` or `harness` runs on all implementations."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from tests.etcd import EtcdServer
from tests.unit.store.harness import AnyStore, Harness, LocalStore

from rdd.store.sqlite.store import SqliteStore


@pytest.fixture(scope="session")
def etcd_server(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EtcdServer]:
    """A real etcd, shared by the tests of a worker."""
    server = EtcdServer(real_part("etcd"), tmp_path_factory.mktemp("etcd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def newer_etcd_server(
    real_part: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EtcdServer]:
    """An etcd 3.5, shared by the tests of a worker."""
    server = EtcdServer(real_part("etcd-3.5"), tmp_path_factory.mktemp("etcd-3.5"))
    server.start()
    yield server
    server.stop()


ETCD_FIXTURES = {"etcd-3.4": "etcd_server", "etcd-3.5": "newer_etcd_server"}


@pytest.fixture(params=["sqlite", "memory", *ETCD_FIXTURES])
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(request.param, tmp_path)
    if request.param in ETCD_FIXTURES:
        harness.etcd = request.getfixturevalue(ETCD_FIXTURES[request.param])
    yield harness
    await harness.close()


@pytest.fixture
async def store(harness: Harness) -> AnyStore:
    return await harness.open()


@pytest.fixture(params=["sqlite", "memory"])
async def local(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Harness]:
    """A harness of the stores with one writer, which promise more than a distributed one."""
    harness = Harness(request.param, tmp_path)
    yield harness
    await harness.close()


@pytest.fixture
async def local_store(local: Harness) -> LocalStore:
    return await local.open_local()


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
