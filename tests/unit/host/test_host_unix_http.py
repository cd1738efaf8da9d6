# SPDX-License-Identifier: Apache-2.0
"""HTTP over a unix socket, against peers that stream, hang, close early or are not HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from rdd.host import unix_http
from rdd.host.unix_http import ConnectionLost, MalformedResponse


@asynccontextmanager
async def serving(
    path: Path, response: bytes, *, closes: bool = True
) -> AsyncIterator[list[bytes]]:
    """Serve `response` to every request; yields the requests."""
    requests: list[bytes] = []
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            requests.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(response)
            if not closes:
                await reader.read()
        except OSError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_unix_server(handle, path):
        yield requests
        await asyncio.gather(*handlers)


async def test_request_returns_status_reason_and_body(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path, b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno") as requests:
        response, body = await unix_http.request(path, "/x", method="POST", timeout_s=120)
    assert (response.status, response.reason, body) == (404, "Not Found", b"no")
    assert requests == [
        b"POST /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    ]


async def test_complete_response_is_returned_before_the_peer_closes(tmp_path: Path) -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    async with serving(tmp_path / "s", ok, closes=False):
        _response, body = await unix_http.request(tmp_path / "s", "/", timeout_s=120)
        assert body == b"ok"


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        pytest.param(b"", ConnectionLost, "without a response", id="nothing"),
        pytest.param(b"junk", MalformedResponse, "not an HTTP response: 'junk'", id="no HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", MalformedResponse,
                     "not a content length", id="negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", ConnectionLost,
                     "in the middle", id="short"),
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (unix_http.MAX_BODY_BYTES + 1),
                     MalformedResponse, "larger than 1048576 bytes", id="too large"),
    ],
)  # fmt: skip
async def test_unusable_response_raises_a_connection_error(
    tmp_path: Path, response: bytes, error: type[Exception], text: str
) -> None:
    async with serving(tmp_path / "s", response):
        with pytest.raises(error, match=text) as caught:
            await unix_http.request(tmp_path / "s", "/", timeout_s=120)
        assert isinstance(caught.value, OSError)


async def test_peer_that_hangs_times_out(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", b"HTTP/1.1 200", closes=False):
        with pytest.raises(TimeoutError, match=r"no response within 0\.05 s"):
            await unix_http.request(tmp_path / "s", "/", timeout_s=0.05)


async def test_missing_and_stale_sockets_raise_os_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await unix_http.request(tmp_path / "none", "/", timeout_s=120)
    (tmp_path / "file").touch()
    with pytest.raises(ConnectionRefusedError):
        await unix_http.request(tmp_path / "file", "/", timeout_s=120)


async def test_lines_are_split_across_chunks_and_bounded(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"3\r\na\nb\r\n4\r\nc\n\nd\r\n0\r\n\r\n"
    async with (
        serving(tmp_path / "s", head + chunks),
        unix_http.open_response(tmp_path / "s", "/") as response,
    ):
        assert [line async for line in response.lines()] == [b"a", b"bc", b"d"]
    async with (
        serving(tmp_path / "t", head + b"5\r\nab\ncd\r\n3\r\nefg\r\n0\r\n\r\n"),
        unix_http.open_response(tmp_path / "t", "/") as response,
    ):
        with pytest.raises(MalformedResponse, match="more than 4 bytes"):
            assert [line async for line in response.lines(4)] == [b"ab"]


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("size", [b"-5", b"+5", b"0x5", b"1_0", b"", b"g", b"f" * 16, b"5 5"])
async def test_chunk_whose_size_is_no_number_is_refused(tmp_path: Path, size: bytes) -> None:
    path = tmp_path / "s"
    async with serving(path, CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n"):
        with pytest.raises(MalformedResponse, match="not a chunk"):
            await unix_http.request(path, "/", timeout_s=120)


async def test_chunk_that_announces_more_than_fits_costs_what_arrives(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path, CHUNKED + b"fffffffffff\r\n" + b"x" * (4 << 20)):
        async with unix_http.open_response(path, "/") as response:
            pieces = response.chunks()
            assert 0 < len(await anext(pieces)) <= 64 * 1024
            await pieces.aclose()
        with pytest.raises(MalformedResponse, match="larger than 1048576 bytes"):
            await unix_http.request(path, "/", timeout_s=120)


@pytest.mark.parametrize("length", [b"9" * 19, b"-1", "²".encode("latin-1"), b"1e3", b"9" * 5000])
async def test_length_that_is_no_number_is_refused(tmp_path: Path, length: bytes) -> None:
    path = tmp_path / "s"
    async with serving(path, b"HTTP/1.1 200 OK\r\nContent-Length: " + length + b"\r\n\r\nab"):
        with pytest.raises(MalformedResponse, match="not a content length"):
            await unix_http.request(path, "/", timeout_s=120)


async def test_body_beyond_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with serving(path, b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999\r\n\r\n"):
        with pytest.raises(MalformedResponse, match="larger than"):
            await unix_http.request(path, "/", timeout_s=120, max_bytes=None)


async def test_chunked_body_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "s"
    body = bytes(range(256)) * 1000
    pieces = [body[i : i + 100_000] for i in range(0, len(body), 100_000)]
    text = b"".join(b"%X;x=y\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    async with serving(path, CHUNKED + text + b"0\r\n\r\n", closes=False):
        response, found = await unix_http.request(path, "/", timeout_s=120)
    assert (response.is_complete, found) == (True, body)
