# SPDX-License-Identifier: Apache-2.0
"""A server for each test, in the test's own event loop; its log must stay clean."""

import logging
from collections.abc import AsyncIterator

import pytest
from tests.http.client import Api

from rdd.testing import Options, Server


@pytest.fixture
async def api(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Api]:
    """Requests to a fresh server without controllers; it must not log errors."""
    async with Server(Options(builtin_controllers="")) as server:
        yield Api(server)
    broken = [r for r in caplog.get_records("call") if r.levelno >= logging.ERROR]
    assert not broken, "the server logged errors"
