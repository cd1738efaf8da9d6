# SPDX-License-Identifier: Apache-2.0
"""Heads of HTTP/1.1: rules for requests beyond the parser's, rendering of responses.

llhttp rejects what smuggling needs (two lengths, a length and chunks, obs-fold, bare line
feeds). Left to us are version, Host, transfer codings other than chunked, and a body behind an
upgrade, which llhttp would read as the next request.
"""

import email.utils
import re
import time

from rdd.http.headers import HeaderList, Headers, clean
from rdd.http.responses import PHRASES

_is_token = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}").fullmatch
_ABSOLUTE = re.compile(r"https?://([^/?#]*)", re.IGNORECASE)
MAX_METHOD_BYTES = 32

PARSED_METHODS = frozenset(
    b"DELETE GET HEAD POST PUT OPTIONS TRACE PATCH COPY LOCK MKCOL MOVE PROPFIND PROPPATCH "
    b"SEARCH UNLOCK".split()
)
"""Methods that the parser reads as they are; any other is replaced before it."""


class BadRequest(Exception):
    """A request that gets a status and a closed connection."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Date:
    """The Date header, formatted once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._text = ""

    def __call__(self) -> str:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._text = email.utils.formatdate(now, usegmt=True)
        return self._text


date = _Date()


def check_method(method: bytes) -> bytes:
    """Return a method that the parser does not read. Raises BadRequest if it is no token."""
    if not _is_token(method):
        raise BadRequest(400, "malformed method")
    return method


def check(version: str, headers: Headers, *, is_upgrade: bool) -> int | None:
    """Return the length of the body, None if unknown. Raises BadRequest."""
    if version not in ("1.1", "1.0"):
        raise BadRequest(505, "unsupported version of HTTP")
    if version == "1.1" and len(headers.getall("Host")) != 1:
        raise BadRequest(400, "exactly one Host header is required")
    length: int | None = 0
    if "Transfer-Encoding" in headers:
        if version == "1.0" or headers["Transfer-Encoding"].strip().lower() != "chunked":
            raise BadRequest(501, "unsupported transfer encoding")
        length = None
    elif "Content-Length" in headers:
        length = int(headers["Content-Length"])
    if is_upgrade and length != 0:
        raise BadRequest(400, "an upgrade with a body is not supported")
    return length


def split_absolute(target: str) -> tuple[str, str]:
    """Return host and path of an absolute target (`GET http://host/path`). Raises BadRequest."""
    match = _ABSOLUTE.match(target)
    if match is None:
        if target == "*":
            return "", target
        raise BadRequest(400, "malformed request target")
    rest = target[match.end() :]
    return match[1], rest if rest.startswith("/") else "/" + rest


MAX_CACHED_LINES = 512
_lines: dict[tuple[str, str], str] = {}


def header_lines(headers: HeaderList) -> str:
    """Return the lines of headers; most of them are the same in every response."""
    text = ""
    for pair in headers:
        line = _lines.get(pair)
        if line is None:
            line = f"{pair[0]}: {clean(pair[1])}\r\n"
            if len(_lines) < MAX_CACHED_LINES and len(line) < 128:
                _lines[pair] = line
        text += line
    return text


def render(status: int, headers: HeaderList, *, size: str, keep: bool) -> bytes:
    """Return the head of a response; `size` is the line that delimits the body."""
    return (
        f"HTTP/1.1 {status} {PHRASES.get(status, '')}\r\n{header_lines(headers)}"
        f"Date: {date()}\r\n{size}{'' if keep else 'Connection: close' + chr(13) + chr(10)}\r\n"
    ).encode("utf-8", "surrogateescape")
