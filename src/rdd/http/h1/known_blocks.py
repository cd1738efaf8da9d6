# SPDX-License-Identifier: Apache-2.0
"""Header lines that a client repeats.

A request without a body whose header lines are those of an earlier request of the connection,
byte by byte, is not parsed again. Only blocks that the parser has accepted are remembered, and
only for request lines of the plainest form.
"""

import re

from rdd.http.headers import Headers

MAX_BLOCKS = 8
MAX_BLOCK_BYTES = 4096

_is_plain = re.compile(
    rb"(GET|HEAD|DELETE) (/[A-Za-z0-9/._~%=&?,:;@!$'()*+-]*) HTTP/1\.1\r\n"
).match


class KnownBlocks:
    """The header lines of one connection."""

    __slots__ = ("blocks",)

    def __init__(self) -> None:
        self.blocks: dict[bytes, Headers] = {}

    def find(self, data: bytes) -> tuple[str, str, Headers] | None:
        """Return method, target and headers if data is one request with known header lines."""
        match = _is_plain(data)
        if match is None:
            return None
        headers = self.blocks.get(data[match.end() :])
        if headers is None:
            return None
        method, target = match.groups()
        return method.decode("ascii"), target.decode("ascii"), headers

    def remember(self, data: bytes, headers: Headers) -> None:
        """Remember the header lines of data, if it is exactly one request without a body."""
        match = _is_plain(data)
        if match is None:
            return
        block = data[match.end() :]
        if block.find(b"\r\n\r\n") == len(block) - 4 and len(block) <= MAX_BLOCK_BYTES:
            if len(self.blocks) >= MAX_BLOCKS:
                self.blocks.clear()
            self.blocks[block] = headers
