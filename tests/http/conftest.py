# SPDX-License-Identifier: Apache-2.0
"""A server per test, in the event loop of the test; it must not log errors."""

import logging
from collections.abc import AsyncIterator

import pytest
from tests.http.api_wire import Wire, on_the_wire
from tests.http.client import Api

from rdd.testing import Options, Server


@pytest.fixture
async def api(caplog: pytest.LogCaptureFixture) -> AsyncIterator[Api]:
    """A client of a new server without controllers, which must not log errors."""
    async with Server(Options(builtin_controllers="")) as server:
        yield Api(server)
    broken = [r for r in caplog.get_records("call") if r.levelno >= logging.ERROR]
    assert not broken, "the server logged errors"


@pytest.fixture
async def wire(api: Api) -> AsyncIterator[Wire]:
    async with on_the_wire(api) as opened:
        yield opened
