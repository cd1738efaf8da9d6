# SPDX-License-Identifier: Apache-2.0
"""Decoding of the values structs are made of, as Go does it.

Each function makes a decoder: a function that is given a JSON value and returns
it in the form in which Go would print it again. A decoder of a scalar has no
use for its second argument; it has one so that all decoders are called alike
(see rdd.schema.builtin.typed).
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from rdd.api.quantity import Quantity, QuantityError
from rdd.base import govalue
from rdd.base.goformat import json_kind

Decode = Callable[[Any, list[None]], Any]


class Mismatch(Exception):
    """A value of the wrong type; on its way out it learns where it is."""

    def __init__(self, value: str, go_type: str) -> None:
        super().__init__(value, go_type)
        self.value = value
        self.go_type = go_type
        self.struct = ""
        self.path: list[str] = []

    def __str__(self) -> str:
        where = f"struct field {self.struct}.{'.'.join(self.path)}" if self.struct else "value"
        return f"json: cannot unmarshal {self.value} into Go {where} of type {self.go_type}"


class Malformed(Exception):
    """A value of the right type that cannot be read; the message has no place."""


def string(go: str) -> Decode:
    """Return text; `go` is the Go type in the complaint about anything else."""

    def decode(value: Any, strange: list[None]) -> str:
        if value.__class__ is str:
            return value
        raise Mismatch(json_kind(value), go)

    return decode


def boolean(go: str) -> Decode:
    """true or false."""

    def decode(value: Any, strange: list[None]) -> bool:
        if value is True or value is False:
            return value
        raise Mismatch(json_kind(value), go)

    return decode


def integer(go: str, bits: int) -> Decode:
    """Return integers of a width."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def decode(value: Any, strange: list[None]) -> int:
        if value.__class__ is int and low <= value <= high:
            return value
        if value.__class__ is int or value.__class__ is float:
            raise Mismatch(f"number {govalue.number(value)}", go)
        raise Mismatch(json_kind(value), go)

    return decode


def number(go: str) -> Decode:
    """Return numbers."""

    def decode(value: Any, strange: list[None]) -> float:
        if value.__class__ is int or value.__class__ is float:
            return value
        raise Mismatch(json_kind(value), go)

    return decode


_BASE64 = re.compile(r"[A-Za-z0-9+/]").match


def octets(go: str) -> Decode:
    """Return bytes, as base64 text or a list of numbers."""

    def decode(value: Any, strange: list[None]) -> str:
        if value.__class__ is str:
            try:
                base64.b64decode(value, validate=True)
                return value if value[-1:] != "=" else _canonical_end(value)
            except (binascii.Error, ValueError):
                return _lenient_base64(value)
        if value.__class__ is list:
            octet = integer("uint8", 9)
            numbers = [0 if v is None else octet(v, strange) for v in value]
            for number in numbers:
                if number < 0:
                    raise Mismatch(f"number {number}", "uint8")
            return base64.b64encode(bytes(numbers)).decode()
        raise Mismatch(json_kind(value), go)

    return decode


def _canonical_end(text: str) -> str:
    """Return base64 whose unused last bits are zero, as an encoder leaves them."""
    return text[:-4] + base64.b64encode(base64.b64decode(text[-4:])).decode()


def _lenient_base64(text: str) -> str:
    """Return what Go accepts beyond Python: line breaks. Otherwise Go's complaint."""
    raw = text.encode("utf-8", "surrogatepass")
    kept = raw.translate(None, b"\r\n")
    if len(kept) != len(raw):
        try:
            return base64.b64encode(base64.b64decode(kept, validate=True)).decode()
        except (binascii.Error, ValueError):
            pass
    raise Malformed(f"illegal base64 data at input byte {_base64_error(raw)}")


def _base64_error(raw: bytes) -> int:
    """Return where Go's decoder stops: the first byte that cannot be there, or the missing one."""
    in_quantum = 0
    position = 0
    while position < len(raw):
        char = raw[position : position + 1]
        if char in b"\r\n":
            position += 1
            continue
        if char == b"=":
            if in_quantum < 2:
                return position
            position += 1
            if in_quantum == 2:
                while raw[position : position + 1] in (b"\r", b"\n"):
                    position += 1
                if raw[position : position + 1] != b"=":
                    return position if position < len(raw) else len(raw)
                position += 1
            while raw[position : position + 1] in (b"\r", b"\n"):
                position += 1
            return position
        if not _BASE64(chr(char[0])):
            return position
        in_quantum = (in_quantum + 1) % 4
        position += 1
    return len(raw) - in_quantum


def time(parse: Callable[[str], str | None]) -> Decode:
    """Return times; `parse` brings a text into the printed form."""

    def decode(value: Any, strange: list[None]) -> str | None:
        if value.__class__ is not str:
            raise Mismatch(json_kind(value), "string")
        try:
            return parse(value)
        except ValueError as error:
            raise Malformed(str(error)) from None

    return decode


def quantity(value: Any, strange: list[None]) -> str:
    """Return quantities in canonical form."""
    if value.__class__ is str:
        text = value.strip()
    elif value.__class__ in (int, float):
        text = govalue.number(value)
    elif value.__class__ is bool:
        text = "true"
    else:
        text = "{"
    try:
        return str(Quantity.parse(text))
    except QuantityError as error:
        raise Malformed(str(error)) from None
