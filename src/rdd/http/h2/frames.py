# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2: numbers, layout, errors."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
MAX_FRAME_BYTES = 16_384
"""The largest frame we accept and send: the default of the RFC."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE = 0, 1, 2, 3, 4, 5
PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 6, 7, 8, 9

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0, 1, 2, 3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 5, 6, 7, 8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE = 1, 2, 3, 4
MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = 5, 6


class ConnectionFailure(Exception):
    """A violation that ends the connection."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamFailure(Exception):
    """A violation that ends one stream."""

    def __init__(self, stream: int, code: int, text: str) -> None:
        super().__init__(text)
        self.stream = stream
        self.code = code


def head(size: int, kind: int, flags: int, stream: int) -> bytes:
    """Return the head of a frame."""
    return struct.pack("!BHBBI", size >> 16, size & 0xFFFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return head(len(payload), kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack("!HI", *item) for item in values.items()))


def window_update(stream: int, size: int) -> bytes:
    """Return a WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", size))


def reset(stream: int, code: int) -> bytes:
    """Return a RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream, struct.pack("!I", code))


def goaway(last_stream: int, code: int, text: str = "") -> bytes:
    """Return a GOAWAY frame."""
    return frame(GOAWAY, 0, 0, struct.pack("!II", last_stream, code) + text.encode()[:200])


def parse_settings(payload: bytes) -> dict[int, int]:
    """Return the values of a SETTINGS frame. Raises ConnectionFailure."""
    if len(payload) % 6:
        raise ConnectionFailure(FRAME_SIZE_ERROR, "malformed SETTINGS")
    found: dict[int, int] = dict(struct.iter_unpack("!HI", payload))
    if found.get(ENABLE_PUSH, 0) > 1:
        raise ConnectionFailure(PROTOCOL_ERROR, "invalid ENABLE_PUSH")
    if found.get(INITIAL_WINDOW_SIZE, 0) > 0x7FFFFFFF:
        raise ConnectionFailure(FLOW_CONTROL_ERROR, "invalid INITIAL_WINDOW_SIZE")
    if not MAX_FRAME_BYTES <= found.get(MAX_FRAME_SIZE, MAX_FRAME_BYTES) <= 0xFFFFFF:
        raise ConnectionFailure(PROTOCOL_ERROR, "invalid MAX_FRAME_SIZE")
    return found


def without_padding(flags: int, payload: bytes) -> bytes:
    """Return the payload of a DATA or HEADERS frame without padding. Raises ConnectionFailure."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise ConnectionFailure(PROTOCOL_ERROR, "more padding than payload")
    return payload[1 : len(payload) - payload[0]]
