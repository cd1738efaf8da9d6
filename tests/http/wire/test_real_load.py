# SPDX-License-Identifier: Apache-2.0
"""h2load of nghttp2 against the API: an independent client of both protocols under load."""

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from tests.http.client import CONFIG_MAPS, Api
from tests.programs import run_program

from rdd.apiserver.http.listener import HttpServer

REQUESTS = 2000


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--h1", "-c", "8"), id="http1"),
        pytest.param(("-c", "8", "-m", "1"), id="one stream"),
        pytest.param(("-c", "8", "-m", "100"), id="many streams"),
        pytest.param(("-c", "4", "-m", "10", "-w", "10", "-W", "12"), id="tiny windows"),
        pytest.param(("-c", "4", "-m", "10", "--header-table-size=0"), id="no table"),
    ],
)
async def test_every_request_of_h2load_is_answered(
    api: Api, real_part: Callable[[str], Path], options: tuple[str, ...]
) -> None:
    h2load = real_part("h2load")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    await api.post(CONFIG_MAPS, {"metadata": {"name": "read"}, "data": {"a": "x" * 1000}})
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(tls)
    listener = socket.create_server(("127.0.0.1", 0))
    http = HttpServer(api.server)
    await http.listen(listener, tls)
    try:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}{CONFIG_MAPS}/read"
        token = f"authorization: Bearer {api.server.tokens['admin']}"
        command: list[str | Path] = [h2load, *options, "-n", str(REQUESTS), "-H", token, url]
        printed = (await asyncio.to_thread(run_program, command, check=True)).stdout
    finally:
        await http.close(timeout_s=1)
    assert re.search(rf"status codes: {REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx", printed)
    protocol = "http/1.1" if "--h1" in options else "h2"
    assert f"Application protocol: {protocol}" in printed
