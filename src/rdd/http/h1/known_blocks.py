# SPDX-License-Identifier: Apache-2.0
"""Header lines that a client repeats.

A request that arrives in one piece and whose header lines are those of an earlier request of the
connection, byte by byte but for the number of Content-Length, is not parsed again. Only blocks
that the parser has accepted are remembered, and only for request lines of the plainest form.

Invariant: a block with a known shape has exactly the header lines of the accepted one. So it has
one Content-Length or none, no transfer coding and nothing that a parser could read differently.
"""

import re
from typing import NamedTuple

from rdd.http.headers import Headers

MAX_BLOCKS = 8
MAX_BLOCK_BYTES = 4096
MAX_BODY_BYTES = 64 * 1024

_is_plain = re.compile(
    rb"(GET|HEAD|DELETE|POST|PUT|PATCH) (/[A-Za-z0-9/._~%=&?,:;@!$'()*+-]*) HTTP/1\.1\r\n"
).match
_length_line = re.compile(rb"(?:^|\r\n)Content-Length: ([1-9][0-9]{0,5})\r\n", re.IGNORECASE).search


class KnownRequest(NamedTuple):
    """A complete request with known header lines."""

    method: str
    target: str
    headers: Headers
    body: bytes


class KnownBlocks:
    """The header lines of one connection."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: dict[tuple[bytes, bytes], Headers] = {}
        """By what precedes the number of Content-Length, and what follows it."""

    def find(self, data: bytes) -> KnownRequest | None:
        """Return the request if data is exactly one with known header lines."""
        found = _split(data)
        if found is None:
            return None
        method, target, shape, length, body = found
        headers = self.blocks.get(shape)
        if headers is None:
            return None
        if length:
            headers = headers.with_length(length.decode("ascii"))
        return KnownRequest(method.decode("ascii"), target.decode("ascii"), headers, body)

    def remember(self, data: bytes, headers: Headers) -> None:
        """Remember the header lines of data, if it is exactly one request."""
        found = _split(data)
        if found is None or "Transfer-Encoding" in headers or "Expect" in headers:
            return
        shape = found[2]
        if len(shape[0]) + len(shape[1]) <= MAX_BLOCK_BYTES:
            if len(self.blocks) >= MAX_BLOCKS:
                self.blocks.clear()
            self.blocks[shape] = headers


def _split(data: bytes) -> tuple[bytes, bytes, tuple[bytes, bytes], bytes, bytes] | None:
    """Return method, target, shape of the block, length and body of exactly one request."""
    match = _is_plain(data)
    if match is None:
        return None
    start = match.end()
    end = data.find(b"\r\n\r\n", start, start + MAX_BLOCK_BYTES) + 4
    if end < 4:
        return None
    method, target = match.groups()
    size = len(data) - end
    if not size:
        return method, target, (data[start:], b""), b"", b""
    block = data[start:end]
    line = _length_line(block)
    if line is None or size > MAX_BODY_BYTES or int(line[1]) != size:
        return None
    first, last = line.span(1)
    return method, target, (block[:first], block[last:]), line[1], data[end:]
