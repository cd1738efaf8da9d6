# SPDX-License-Identifier: Apache-2.0
"""Protocol Buffers on the wire, without a schema compiler.

A message is a sequence of numbered fields: integers, or bytes that stand for
text or another message. Which is which only the reader knows, so reading is by
number and type:

    message = Message(data)
    message.text(1), message.integer(3), message.message(5), message.messages(2)

Unknown fields are skipped, absent ones read as empty, as the format wants it.
"""

from collections.abc import Iterator

from rdd.engine.errors import Unintelligible

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Message:
    """The fields of a message."""

    __slots__ = ("_fields",)

    def __init__(self, data: bytes) -> None:
        """Raises Unintelligible if the bytes are no message."""
        self._fields: dict[int, list[int | bytes]] = {}
        for number, value in _fields(data):
            self._fields.setdefault(number, []).append(value)

    def text(self, number: int) -> str:
        """A text; what is no UTF-8 is replaced."""
        return self.bytes(number).decode("utf-8", "replace")

    def bytes(self, number: int) -> bytes:
        """Bytes as they are."""
        found = self._fields.get(number, (b"",))[-1]
        return found if isinstance(found, bytes) else b""

    def integer(self, number: int) -> int:
        """An unsigned integer, a truth value or an enum."""
        found = self._fields.get(number, (0,))[-1]
        return found if isinstance(found, int) else 0

    def signed(self, number: int) -> int:
        """An integer of 64 bits with a sign."""
        found = self.integer(number)
        return found - (1 << 64) if found >= 1 << 63 else found

    def message(self, number: int) -> "Message":
        """A message in this one."""
        return Message(self.bytes(number))

    def messages(self, number: int) -> list["Message"]:
        """All messages of a repeated field."""
        found = self._fields.get(number, ())
        return [Message(value) for value in found if not isinstance(value, int)]

    def texts(self, number: int) -> dict[str, str]:
        """A map of texts."""
        return {entry.text(1): entry.text(2) for entry in self.messages(number)}

    def __contains__(self, number: int) -> bool:
        return number in self._fields


def field(number: int, value: str | bytes | int | bool) -> bytes:
    """One field, for a message to send; one that is empty is left out."""
    if not value:
        return b""
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(int(value))
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _BYTES) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at, end = 0, len(data)
    while at < end:
        tag, at = _read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise Unintelligible.of("not a message", data)
        if size > end - at:
            raise Unintelligible.of("a message that breaks off", data)
        yield number, data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    raise Unintelligible.of("not a message", data)
