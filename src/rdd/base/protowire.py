# SPDX-License-Identifier: Apache-2.0
"""The protobuf wire format: tags, variable-length integers, lengths.

A message is a sequence of fields, each a tag (field number and wire type) and a
value. The readers take a position in a buffer and return the position after the
value; nothing is copied, so nested messages cost no more than flat ones. The
checks, their order and their texts are those of the decoders generated for
Kubernetes' types, because clients see them in responses.
"""

VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = range(6)
"""The wire types."""

_UINT64 = (1 << 64) - 1
_MAX_INT = (1 << 63) - 1
_SMALL = tuple(bytes((value,)) for value in range(0x80))
"""Varints of one byte, which most tags and lengths are."""

UNEXPECTED_EOF = "unexpected EOF"
NEGATIVE_LENGTH = "proto: negative length found during unmarshaling"


class MalformedProtobuf(Exception):
    """The bytes are not a protobuf message; the text is Go's."""


def read_varint(buffer: bytes, at: int, end: int) -> tuple[int, int]:
    """Return an unsigned integer of up to 64 bits and the position after it."""
    if at >= end:
        raise MalformedProtobuf(UNEXPECTED_EOF)
    byte = buffer[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        if shift >= 64:
            raise MalformedProtobuf("proto: integer overflow")
        if at >= end:
            raise MalformedProtobuf(UNEXPECTED_EOF)
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _UINT64, at + 1
        shift += 7


def read_tag(buffer: bytes, at: int, end: int, message: str) -> tuple[int, int, int]:
    """Return field number, wire type and the position after them; errors name `message`."""
    key, at = read_varint(buffer, at, end)
    number, wire = signed(key >> 3, 32), key & 7
    if wire == END_GROUP:
        raise MalformedProtobuf(f"proto: {message}: wiretype end group for non-group")
    if number <= 0:
        raise MalformedProtobuf(f"proto: {message}: illegal tag {number} (wire type {wire})")
    return number, wire, at


def read_span(buffer: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the start and the end of a length-delimited value."""
    if at < end and buffer[at] < 0x80:
        length, at = buffer[at], at + 1
    else:
        length, at = read_varint(buffer, at, end)
    if at + length > _MAX_INT:
        raise MalformedProtobuf(NEGATIVE_LENGTH)
    if at + length > end:
        raise MalformedProtobuf(UNEXPECTED_EOF)
    return at, at + length


def read_fixed64(buffer: bytes, at: int, end: int) -> tuple[int, int]:
    """Return eight bytes as an unsigned integer, and the position after them."""
    if at + 8 > end:
        raise MalformedProtobuf(UNEXPECTED_EOF)
    return int.from_bytes(buffer[at : at + 8], "little"), at + 8


def skip(buffer: bytes, at: int, end: int, wire: int) -> int:
    """Return the position after an ignored value; a group, which may nest, is one value."""
    depth = 0
    while True:
        if wire == VARINT:
            _, at = read_varint(buffer, at, end)
        elif wire == FIXED64:
            at += 8
        elif wire == BYTES:
            _, at = read_span(buffer, at, end)
        elif wire == START_GROUP:
            depth += 1
        elif wire == END_GROUP:
            depth -= 1
        elif wire == FIXED32:
            at += 4
        else:
            raise MalformedProtobuf(f"proto: illegal wireType {wire}")
        if at > end:
            raise MalformedProtobuf(UNEXPECTED_EOF)
        if depth == 0:
            return at
        key, at = read_varint(buffer, at, end)
        wire = key & 7


def signed(value: int, bits: int) -> int:
    """Return the lower bits of an unsigned integer as a signed one."""
    sign = 1 << bits - 1
    return ((value & (sign << 1) - 1) ^ sign) - sign


def encode_varint(value: int) -> bytes:
    """Return an integer of 64 bits as a varint; a negative one takes ten bytes."""
    if 0 <= value < 0x80:
        return _SMALL[value]
    value &= _UINT64
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_tag(number: int, wire: int) -> bytes:
    return encode_varint(number << 3 | wire)


def encode_bytes(number: int, data: bytes) -> bytes:
    """Return a length-delimited field."""
    key, size = number << 3 | BYTES, len(data)
    if key < 0x80 and size < 0x80:
        return _SMALL[key] + _SMALL[size] + data
    return encode_varint(key) + encode_varint(size) + data
