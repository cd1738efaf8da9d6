# SPDX-License-Identifier: Apache-2.0
"""Strings of HPACK as server and client encode them: without Huffman code.

Huffman coding saves a few bytes on loopback and costs more than it saves. This module imports
nothing, because clients of gRPC need no server.
"""


def string_literal(data: bytes) -> bytes:
    """Return the length of a string, then its bytes (RFC 7541, 5.2)."""
    size = len(data)
    if size < 127:
        return bytes([size]) + data
    head = bytearray([127])
    size -= 127
    while size >= 128:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head) + data
