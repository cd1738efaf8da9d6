# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages without a schema compiler.

A message is a sequence of numbered fields: integers, or bytes that hold a text or
another message. The wire format does not distinguish the latter, so the caller reads
by number and type:

    message = Message(data)
    message.text(1), message.integer(3), message.message(5), message.messages(2)

Unknown fields are ignored and missing ones are empty, as the format requires.
"""

from collections.abc import Iterator
from typing import ClassVar, Self

from rdd.base import protowire
from rdd.grpc.errors import GrpcProtocolError

_SHOWN = 200


class Message:
    """The fields of a message."""

    __slots__ = ("_fields",)
    malformed: ClassVar[type[Exception]] = GrpcProtocolError

    def __init__(self, data: bytes) -> None:
        """Decode a message. Raises `malformed`."""
        self._fields: dict[int, list[int | bytes]] = {}
        try:
            for number, value in _fields(data):
                self._fields.setdefault(number, []).append(value)
        except protowire.MalformedProtobuf as error:
            shown = data[:_SHOWN].decode("utf-8", "replace")
            raise self.malformed(f"not a protobuf message ({error}): {shown!r}") from None

    def text(self, number: int) -> str:
        """Return a text; invalid UTF-8 is replaced."""
        return self.bytes(number).decode("utf-8", "replace")

    def bytes(self, number: int) -> bytes:
        found = self._fields.get(number, (b"",))[-1]
        return found if isinstance(found, bytes) else b""

    def integer(self, number: int) -> int:
        """Return an unsigned integer, a boolean or an enum."""
        found = self._fields.get(number, (0,))[-1]
        return found if isinstance(found, int) else 0

    def signed(self, number: int) -> int:
        """Return a signed integer of 64 bits."""
        return protowire.signed(self.integer(number), 64)

    def message(self, number: int) -> Self:
        return type(self)(self.bytes(number))

    def messages(self, number: int) -> list[Self]:
        """Return the messages of a repeated field."""
        found = self._fields.get(number, ())
        return [type(self)(value) for value in found if not isinstance(value, int)]

    def texts(self, number: int) -> dict[str, str]:
        """Return a map of texts."""
        return {entry.text(1): entry.text(2) for entry in self.messages(number)}

    def __contains__(self, number: int) -> bool:
        return number in self._fields


def field(number: int, value: str | bytes | int | bool) -> bytes:
    """Encode a field; an empty value is omitted."""
    if not value:
        return b""
    if isinstance(value, int):
        return protowire.encode_tag(number, protowire.VARINT) + protowire.encode_varint(value)
    return protowire.encode_bytes(number, value.encode() if isinstance(value, str) else value)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at, end = 0, len(data)
    while at < end:
        number, wire, at = protowire.read_tag(data, at, end, "message")
        if wire == protowire.VARINT:
            value, at = protowire.read_varint(data, at, end)
            yield number, value
        elif wire == protowire.BYTES:
            start, at = protowire.read_span(data, at, end)
            yield number, data[start:at]
        else:
            start, at = at, protowire.skip(data, at, end, wire)
            yield number, data[start:at]
