# SPDX-License-Identifier: Apache-2.0
"""Text to tokens.

One regular expression finds every token of the language; what it does not match
is reported as cel-go's ANTLR lexer does, and skipped, so
that the parser can report errors in the rest.
"""

import re
from typing import NamedTuple

from rdd.cel.errors import Issue


class Token(NamedTuple):
    """A token: its kind, its text and where it starts."""

    kind: str
    text: str
    pos: int


_TOKENS = re.compile(
    r"""
      (?P<space>[\t\ \r\n\f]+ | //[^\n]*)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+ | \.\d+(?:[eE][+-]?\d+)?)
    | (?P<uint>(?:0x[0-9a-fA-F]+ | \d+)[uU])
    | (?P<int>0x[0-9a-fA-F]+ | \d+)
    | (?P<string>(?P<prefix>[bB]?[rR]? | [rR][bB])
        (?: \"{3}(?:(?!\"{3})(?:[^\\]|\\.))*\"{3} | '{3}(?:(?!'{3})(?:[^\\]|\\.))*'{3}
          | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*' ))
    | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<op>==|!=|<=|>=|&&|\|\||[\[\]{}()<>.,\-!?:+*/%])
    """,
    re.VERBOSE | re.DOTALL,
)
# Raw strings end at the first quote, whatever stands before it.
_RAW = re.compile(
    r"(?:[rR][bB]?|[bB][rR])(?:\"\"\".*?\"\"\"|'''.*?'''|\"[^\"\n\r]*\"|'[^'\n\r]*')", re.DOTALL
)
_KEYWORDS = frozenset(("true", "false", "null", "in"))


def tokenize(source: str) -> tuple[list[Token], list[Issue]]:
    """Return all tokens of a text, ending with one of kind `eof`, and what could not be read."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    pos, end = 0, len(source)
    while pos < end:
        char = source[pos]
        found = _RAW.match(source, pos) if char in "rRbB" else None
        if found is not None:
            tokens.append(Token("string", found[0], pos))
            pos = found.end()
            continue
        found = _TOKENS.match(source, pos)
        if found is None:
            unread = _unreadable(source, pos)
            issues.append(Issue(pos, f"Syntax error: token recognition error at: '{unread}'"))
            pos += len(unread)
            continue
        kind = found.lastgroup or ""
        if kind != "space":
            text = found[0]
            if kind == "op" or (kind == "ident" and text in _KEYWORDS):
                kind = text
            tokens.append(Token(kind, text, pos))
        pos = found.end()
    tokens.append(Token("eof", "<EOF>", end))
    return tokens, issues


def _unreadable(source: str, pos: int) -> str:
    """Return what is no token: an open string, half an operator with what follows, a character."""
    if source[pos] in "'\"":
        return source[pos:].split("\n", 1)[0]
    return source[pos : pos + 2] if source[pos] in "&|=" else source[pos]


_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|(.?))",
    re.DOTALL,
)


def unquote(text: str) -> str | bytes:
    """Return the value of a string or bytes token. Raises ValueError for an invalid escape."""
    prefix = text[: min(text.index(q) for q in "'\"" if q in text)].lower()
    body = text[len(prefix) :]
    width = 3 if len(body) >= 6 and body[:3] in ('"""', "'''") else 1
    body = body[width:-width].replace("\r\n", "\n").replace("\r", "\n")
    is_bytes, is_raw = "b" in prefix, "r" in prefix
    if is_raw or "\\" not in body:
        return body.encode() if is_bytes else body
    return _unescape_bytes(body) if is_bytes else _ESCAPE.sub(_unescape, body)


def _unescape(found: re.Match[str]) -> str:
    simple, byte, short, long, octal, _ = found.groups()
    if simple:
        return _SIMPLE_ESCAPES[simple]
    if octal:
        return chr(int(octal, 8))
    digits = byte or short or long
    if not digits:
        raise ValueError("unable to unescape string")
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _unescape_bytes(body: str) -> bytes:
    result = bytearray()
    last = 0
    for found in _ESCAPE.finditer(body):
        result += body[last : found.start()].encode()
        last = found.end()
        simple, byte, short, long, octal, _ = found.groups()
        if simple:
            result += _SIMPLE_ESCAPES[simple].encode()
        elif byte or octal:
            result.append(int(byte, 16) if byte else int(octal, 8))
        elif short or long:
            raise ValueError("unsupported unicode escape in bytes")
        else:
            raise ValueError("unable to unescape string")
    return bytes(result + body[last:].encode())
