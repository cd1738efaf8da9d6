# SPDX-License-Identifier: Apache-2.0
"""Heads of HTTP/2: HPACK, rules for requests, responses.

Decoding is left to `hpack`. Clients repeat themselves: a block that did not change the dynamic
table means the same headers until the table changes, so it is decoded once. Responses are
encoded without the dynamic table and without Huffman codes: the encoder has no state, and most
headers are a lookup.
"""

import re

from hpack import Decoder, HPACKError, OversizedHeaderListError

from rdd.http.h1.heads import date
from rdd.http.h2.frames import (
    COMPRESSION_ERROR,
    ENHANCE_YOUR_CALM,
    PROTOCOL_ERROR,
    ConnectionFailure,
    StreamFailure,
)
from rdd.http.h2.literals import string_literal
from rdd.http.headers import HeaderList, Headers, clean

MAX_TABLE_BYTES = DEFAULT_TABLE_BYTES = 4096
MAX_KNOWN_BLOCKS = 32
MAX_KNOWN_BYTES = 2048
MAX_CACHED_FIELDS = 512

_is_name = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_is_token = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}").fullmatch
_is_target = re.compile(r"/[!\"$-~]*|\*").fullmatch
_has_forbidden = re.compile("[\0\r\n]").search
_FORBIDDEN = frozenset(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)
_PSEUDO = frozenset({":method", ":scheme", ":path", ":authority"})

_STATUS_INDEX = {200: 8, 204: 9, 206: 10, 304: 11, 400: 12, 404: 13, 500: 14}
_NAME_INDEX = {
    "cache-control": 24, "content-encoding": 26, "content-length": 28, "content-type": 31,
    "date": 33, "etag": 34, "location": 46, "retry-after": 53, "set-cookie": 55, "vary": 59,
    "www-authenticate": 61,
}  # fmt: skip


class RequestHead:
    """The head of a request."""

    __slots__ = ("headers", "length", "method", "target")

    def __init__(self, method: str, target: str, headers: Headers, length: int | None) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.length = length
        """The announced length of the body; None without one."""


class RequestDecoder:
    """Decodes the header blocks of one connection."""

    def __init__(self, *, max_bytes: int) -> None:
        self._decoder = Decoder(max_bytes)
        self._decoder.max_allowed_table_size = MAX_TABLE_BYTES
        self._known: dict[bytes, RequestHead] = {}

    def decode(self, stream: int, block: bytes) -> RequestHead:
        """Return the head in a block. Raises ConnectionFailure or StreamFailure."""
        known = self._known.get(block)
        if known is not None:
            return known
        table = self._decoder.header_table.dynamic_entries
        before = (len(table), table[0] if table else None)
        pairs = self._pairs(block)
        after = (len(table), table[0] if table else None)
        if before[0] != after[0] or before[1] is not after[1]:
            self._known.clear()
            return _request(stream, pairs)
        head = _request(stream, pairs)
        # A block that begins with a new size of the table has an effect each time.
        if len(block) <= MAX_KNOWN_BYTES and block[0] & 0xE0 != 0x20:
            if len(self._known) >= MAX_KNOWN_BLOCKS:
                self._known.clear()
            self._known[block] = head
        return head

    def skip(self, block: bytes) -> None:
        """Decode a block that is discarded: the table must follow."""
        self._pairs(block)
        self._known.clear()

    def decode_trailers(self, block: bytes) -> bool:
        """Decode and discard the fields behind a body; return whether they are valid."""
        pairs = self._pairs(block)
        self._known.clear()
        return all(_is_name(name) and name not in _FORBIDDEN for name, _ in pairs)

    def _pairs(self, block: bytes) -> HeaderList:
        try:
            found = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            raise ConnectionFailure(ENHANCE_YOUR_CALM, "the headers are too large") from None
        except (HPACKError, IndexError, ValueError):
            raise ConnectionFailure(COMPRESSION_ERROR, "malformed header block") from None
        return [
            (
                bytes(n).decode("utf-8", "surrogateescape"),
                bytes(v).decode("utf-8", "surrogateescape"),
            )
            for n, v in found
        ]


def _text(data: bytes | str) -> str:
    return data if isinstance(data, str) else bytes(data).decode("utf-8", "surrogateescape")


def _request(stream: int, pairs: HeaderList) -> RequestHead:
    """Check a header list as RFC 9113, 8.2 and 8.3, requires."""
    pseudo: dict[str, str] = {}
    headers: HeaderList = []
    cookies: list[str] = []
    for name, value in pairs:
        if _has_forbidden(value) or value != value.strip(" \t"):
            raise StreamFailure(stream, PROTOCOL_ERROR, "malformed header value")
        if name[:1] == ":":
            if headers or cookies or name not in _PSEUDO or name in pseudo:
                raise StreamFailure(stream, PROTOCOL_ERROR, "malformed pseudo-headers")
            pseudo[name] = value
        elif not _is_name(name) or name in _FORBIDDEN or (name == "te" and value != "trailers"):
            raise StreamFailure(stream, PROTOCOL_ERROR, "forbidden header")
        elif name == "cookie":
            cookies.append(value)
        else:
            headers.append((name, value))
    if cookies:
        headers.append(("cookie", "; ".join(cookies)))
    method, target = pseudo.get(":method", ""), pseudo.get(":path", "")
    if not _is_token(method) or not _is_target(target) or ":scheme" not in pseudo:
        raise StreamFailure(stream, PROTOCOL_ERROR, "malformed request")
    return RequestHead(
        method, target, _with_host(stream, pseudo, headers), _length(stream, headers)
    )


def _with_host(stream: int, pseudo: dict[str, str], headers: HeaderList) -> Headers:
    hosts = [value for name, value in headers if name == "host"]
    authority = pseudo.get(":authority")
    if len(hosts) > 1 or (hosts and authority is not None and hosts[0] != authority):
        raise StreamFailure(stream, PROTOCOL_ERROR, "ambiguous host")
    if authority is not None and not hosts:
        headers = [("host", authority), *headers]
    return Headers(headers)


def _length(stream: int, headers: HeaderList) -> int | None:
    lengths = [value for name, value in headers if name == "content-length"]
    if not lengths:
        return None
    if len(lengths) > 1 or not lengths[0].isascii() or not lengths[0].isdigit():
        raise StreamFailure(stream, PROTOCOL_ERROR, "malformed content-length")
    if len(lengths[0]) > 18:
        raise StreamFailure(stream, PROTOCOL_ERROR, "malformed content-length")
    return int(lengths[0])


_fields: dict[tuple[str, str], bytes] = {}


def encode_response(status: int, headers: HeaderList, *, length: int | None) -> bytes:
    """Return the header block of a response."""
    index = _STATUS_INDEX.get(status)
    parts = [bytes([0x80 | index]) if index is not None else b"\x08\x03%d" % status]
    for pair in headers:
        found = _fields.get(pair)
        if found is None:
            found = _field(pair[0].lower(), clean(pair[1]))
            if len(_fields) < MAX_CACHED_FIELDS and len(found) < 128:
                _fields[pair] = found
        parts.append(found)
    parts.append(_field("date", date()))
    if length is not None:
        parts.append(_field("content-length", str(length)))
    return b"".join(parts)


def _field(name: str, value: str) -> bytes:
    """Return a literal field without indexing (RFC 7541, 6.2.2)."""
    index = _NAME_INDEX.get(name)
    data = value.encode("utf-8", "surrogateescape")
    if index is None:
        start = b"\x00" + string_literal(name.encode("ascii", "replace"))
    elif index < 15:
        start = bytes([index])
    else:
        start = bytes([15, index - 15])
    return start + string_literal(data)
