# SPDX-License-Identifier: Apache-2.0
"""Rejected connections are closed soon: tests wait for the end."""

import pytest

from rdd.http.h1 import connection as http1
from rdd.http.h2 import connection as http2


@pytest.fixture(autouse=True)
def _short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "LINGER_S", 0.2)
    monkeypatch.setattr(http2, "CLOSE_S", 0.2)
