# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.origin import Origin, serving

from rdd.fetch import download
from rdd.fetch.cache import Cache


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    async with serving() as made:
        yield made


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_FIRST_RETRY_S", 0)
