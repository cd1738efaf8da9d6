# SPDX-License-Identifier: Apache-2.0
"""A server for each test, in the test's own event loop; its log must stay clean."""

import logging
from collections.abc import AsyncIterator

import pytest
from tests.api.client import Api

from rdd.testing import Server


@pytest.fixture
async def api(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Api]:
    """Requests to a fresh server; fails the test if the server logged an error."""
    async with Server() as server:
        yield Api(server)
    broken = [r for r in caplog.get_records("call") if r.levelno >= logging.ERROR]
    assert not broken, "the server logged errors"
