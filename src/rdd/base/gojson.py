# SPDX-License-Identifier: Apache-2.0
"""Syntax errors of Go's encoding/json.

A second scan of a text that the fast decoder rejected, only to produce the error message of
Go. It follows Go's scanner: the message has the first unexpected byte and the state of the
scanner.
"""

import re

from rdd.base import gotext

_END = "unexpected end of JSON input"
_string_body = re.compile(rb'[^"\\\x00-\x1f]*').match
_digits = re.compile(rb"[0-9]*").match
_spaces = re.compile(rb"[ \t\r\n]*").match
_HEX = frozenset(b"0123456789abcdefABCDEF")
_ESCAPES = frozenset(b'bfnrt\\/"')
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}


class _Found(Exception):
    pass


def syntax_error(data: bytes, *, max_depth: int = 10000) -> str:
    """Return Go's message for a text that is not JSON; empty if Go accepts it."""
    try:
        _Scanner(data, max_depth).scan()
    except _Found as e:
        return str(e)
    return ""


class _Scanner:
    def __init__(self, data: bytes, max_depth: int) -> None:
        self.data = data
        self.max_depth = max_depth
        self.at = 0

    def scan(self) -> None:
        self._value()
        self._skip_spaces()
        if self.at < len(self.data):
            raise self._wrong("after top-level value")

    def _wrong(self, where: str) -> _Found:
        if self.at >= len(self.data):
            return _Found(_END)
        char = gotext.quote_char(chr(self.data[self.at]))
        return _Found(f"invalid character {char} {where}")

    def _skip_spaces(self) -> int:
        """Return the next byte that is not white space, or -1 at the end."""
        found = _spaces(self.data, self.at)
        self.at = found.end() if found else self.at
        return self.data[self.at] if self.at < len(self.data) else -1

    def _value(self) -> None:
        """Scan one value with its content; nesting uses a list instead of recursion."""
        closers: list[int] = []
        while True:
            byte = self._skip_spaces()
            if byte == ord("{") or byte == ord("["):
                closers.append(ord("}") if byte == ord("{") else ord("]"))
                if len(closers) > self.max_depth:
                    raise self._wrong("exceeded max depth")
                self.at += 1
                if self._skip_spaces() != closers[-1]:
                    if byte == ord("{"):
                        self._key()
                    continue
                self.at += 1
                closers.pop()
            else:
                self._scalar(byte)
            if not self._next_item(closers):
                return

    def _next_item(self, closers: list[int]) -> bool:
        """Skip closing brackets up to the next value; return False after the last one."""
        while closers:
            byte = self._skip_spaces()
            is_object = closers[-1] == ord("}")
            if byte == closers[-1]:
                self.at += 1
                closers.pop()
            elif byte == ord(","):
                self.at += 1
                if is_object:
                    self._key()
                return True
            else:
                what = "object key:value pair" if is_object else "array element"
                raise self._wrong(f"after {what}")
        return False

    def _key(self) -> None:
        if self._skip_spaces() != ord('"'):
            raise self._wrong("looking for beginning of object key string")
        self._string()
        if self._skip_spaces() != ord(":"):
            raise self._wrong("after object key")
        self.at += 1

    def _scalar(self, byte: int) -> None:
        if byte == ord('"'):
            self._string()
        elif byte in _LITERALS:
            self._literal(_LITERALS[byte])
        elif byte == ord("-") or ord("0") <= byte <= ord("9"):
            self._number(byte)
        else:
            raise self._wrong("looking for beginning of value")

    def _string(self) -> None:
        self.at += 1
        while True:
            found = _string_body(self.data, self.at)
            self.at = found.end() if found else self.at
            byte = self._peek()
            if byte == ord('"'):
                self.at += 1
                return
            if byte != ord("\\"):
                raise self._wrong("in string literal")
            self.at += 1
            byte = self._peek()
            if byte == ord("u"):
                for _ in range(4):
                    self.at += 1
                    if self._peek() not in _HEX:
                        raise self._wrong("in \\u hexadecimal character escape")
            elif byte not in _ESCAPES:
                raise self._wrong("in string escape code")
            self.at += 1

    def _peek(self) -> int:
        return self.data[self.at] if self.at < len(self.data) else -1

    def _literal(self, literal: bytes) -> None:
        for expected in literal[1:]:
            self.at += 1
            if self._peek() != expected:
                expecting = gotext.quote_char(chr(expected))
                raise self._wrong(f"in literal {literal.decode()} (expecting {expecting})")
        self.at += 1

    def _number(self, byte: int) -> None:
        if byte == ord("-"):
            self.at += 1
            byte = self._peek()
            if not ord("0") <= byte <= ord("9"):
                raise self._wrong("in numeric literal")
        self.at += 1
        if byte != ord("0"):
            self._skip_digits()
        if self._peek() == ord("."):
            self.at += 1
            if not self._skip_digits():
                raise self._wrong("after decimal point in numeric literal")
        if self._peek() in (ord("e"), ord("E")):
            self.at += 1
            if self._peek() in (ord("+"), ord("-")):
                self.at += 1
            if not self._skip_digits():
                raise self._wrong("in exponent of numeric literal")

    def _skip_digits(self) -> bool:
        found = _digits(self.data, self.at)
        end = found.end() if found else self.at
        moved, self.at = end > self.at, end
        return moved
