# SPDX-License-Identifier: Apache-2.0
"""Observes a connection to the Docker socket: which request is in progress, and is it quiet.

A pull or a build is in progress until its response is complete, also while no byte flows.
Streams that wait for something to happen are quiet: events, logs that are followed, the
attachment to a container, an exec, the wait of `docker run`, statistics. Only what the client
sends on them counts. So the observer finds the end of each response: by its length, its chunks
or the end of the connection. It never holds back a byte, and nothing that it does not
understand can break a connection: then only the bytes count.
"""

import re
import sys
from enum import Enum, auto

from rdd.vm.idle.activity import Activity

_MAX_HEAD_BYTES = 64 << 10
_LONGEST_SIZE = 200  # of a chunk, with its extension
_request_line = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.[01]\r\n").match
_QUIET = re.compile(
    r"(?:/v[0-9.]+)?/(?:"
    r"events"
    r"|containers/[^/]+/(?:attach|attach/ws|wait)"
    r"|containers/[^/]+/logs\?(?:.*&)?follow=(?:1|true)\b.*"
    r"|containers/[^/]+/stats(?!.*[?&]stream=(?:0|false))"
    r"|(?:services|tasks)/[^/]+/logs\?(?:.*&)?follow=(?:1|true)\b.*"
    r"|exec/[^/]+/start"
    r")(?:\?.*)?",
    re.IGNORECASE,
).fullmatch


def is_quiet(target: str) -> bool:
    """Return whether the response of a request only waits for something to happen."""
    return _QUIET(target) is not None


class DockerObserver:
    """Implements `ConnectionObserver` for the Docker API."""

    shown_bytes = sys.maxsize

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._head = b""
        self._response: ResponseParser | None = None
        self._is_quiet = False
        self._cause = "a client of the Docker socket"

    def opened(self) -> None:
        """Do nothing: the client sends first, and an idle connection does not count."""

    def from_client(self, data: bytes) -> None:
        if self._response is None:
            self._read_request(data)
        self._activity.touch(self._cause)

    def _read_request(self, data: bytes) -> None:
        self._head += data
        line = _request_line(self._head)
        if line is None:
            if len(self._head) > _MAX_HEAD_BYTES or b"\n" in self._head:
                self._head = b""
            return
        self._head = b""
        method, target = line[1].decode(), line[2].decode("latin-1")
        self._cause = f"{method} {target.partition('?')[0]} on the Docker socket"
        self._is_quiet = is_quiet(target)
        self._response = ResponseParser(has_body=method != "HEAD")
        if not self._is_quiet:
            self._activity.begin(self, self._cause)

    def from_server(self, data: bytes) -> None:
        response = self._response
        if response is None:
            return
        if not self._is_quiet:
            self._activity.touch(self._cause)
        response.feed(data)
        if response.is_complete:
            self._response = None
            self._activity.end(self)

    def client_ended(self) -> None:
        """Count the end of the input of a stream, but not that of a kept-alive connection."""
        if self._response is not None:
            self._activity.touch(self._cause)

    def closed(self) -> None:
        self._activity.end(self)


class _Part(Enum):
    HEAD = auto()
    BODY = auto()
    CHUNK_SIZE = auto()
    CHUNK = auto()
    TRAILER = auto()
    REST = auto()  # until the connection ends
    COMPLETE = auto()


class ResponseParser:
    """Finds the end of one response of HTTP/1."""

    def __init__(self, *, has_body: bool) -> None:
        self._has_body = has_body
        self._part = _Part.HEAD
        self._rest = b""
        self._remaining = 0

    @property
    def is_complete(self) -> bool:
        return self._part is _Part.COMPLETE

    def feed(self, data: bytes) -> None:
        """Process the next piece of data."""
        position = 0
        if self._rest:
            data, self._rest = self._rest + data, b""
        while position < len(data):
            if self._part in (_Part.REST, _Part.COMPLETE):
                return
            if self._part in (_Part.BODY, _Part.CHUNK):
                taken = min(self._remaining, len(data) - position)
                position += taken
                self._remaining -= taken
                if not self._remaining:
                    is_body = self._part is _Part.BODY
                    self._part = _Part.COMPLETE if is_body else _Part.CHUNK_SIZE
                continue
            end = b"\r\n\r\n" if self._part is _Part.HEAD else b"\r\n"
            found = data.find(end, position)
            if found < 0:
                self._rest = data[position:]
                if len(self._rest) > _MAX_HEAD_BYTES:
                    self._part, self._rest = _Part.REST, b""
                return
            self._read_line(data[position:found])
            position = found + len(end)

    def _read_line(self, text: bytes) -> None:
        if self._part is _Part.HEAD:
            self._read_head(text)
        elif self._part is _Part.TRAILER:
            if not text:
                self._part = _Part.COMPLETE
        else:
            try:
                size = int(text[:_LONGEST_SIZE].partition(b";")[0], 16)
            except ValueError:
                self._part = _Part.REST
                return
            self._remaining = size + 2
            self._part = _Part.CHUNK if size else _Part.TRAILER

    def _read_head(self, head: bytes) -> None:
        line, *headers = head.lower().split(b"\r\n")
        words = line.split(b" ", 2)
        status = int(words[1]) if len(words) > 1 and _is_number(words[1]) else 0
        if 100 <= status < 200 and status != 101:
            return  # an interim response
        values = {
            name.strip(): value.strip()
            for name, _, value in (header.partition(b":") for header in headers)
        }
        length = values.get(b"content-length", b"")
        if status != 101 and (not self._has_body or status in (204, 304)):
            self._part = _Part.COMPLETE
        elif status == 101 or not status:
            self._part = _Part.REST
        elif b"chunked" in values.get(b"transfer-encoding", b""):
            self._part = _Part.CHUNK_SIZE
        elif _is_number(length):
            self._remaining = int(length)
            self._part = _Part.BODY if self._remaining else _Part.COMPLETE
        else:
            self._part = _Part.REST


def _is_number(text: bytes) -> bool:
    return text.isdigit() and len(text) <= 18
