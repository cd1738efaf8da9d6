# SPDX-License-Identifier: Apache-2.0
"""Serialises templates to YAML, with identical bytes for identical values.

A controller compares the text with the one a machine runs with, and restarts the machine if
they differ. So this serializer does not depend on the release of a library: block style, the
order of the model, quotes where YAML could parse something else than text, literal blocks for
scripts.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rdd.vm.template.model import Template
from rdd.vm.template.shape import to_data

_SIZES = ("memory", "disk", "msize")
_PLAIN = re.compile(r"[A-Za-z/~_][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+(-][A-Za-z0-9_./+()-]*)*")
# Words that some version of YAML does not parse as text.
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null", "~"))
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def render(template: Template) -> str:
    """Return the YAML text of a template. Raises ValueError for text that YAML cannot encode."""
    data = to_data(template)
    return "".join(_mapping(data, "")) if data else "{}\n"


def _mapping(data: Mapping[str, Any], indent: str) -> list[str]:
    lines = []
    for key, value in data.items():
        if key in _SIZES:
            value = str(value)
        lines += _entry(f"{indent}{_scalar(key)}:", value, indent + "  ")
    return lines


def _entry(head: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{head}\n", *_mapping(value, indent)] if value else [f"{head} {{}}\n"]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if all(isinstance(item, int) for item in value):
            return [f"{head} [{', '.join(map(str, value))}]\n"]
        return [f"{head}\n", *_items(value, indent)]
    if isinstance(value, str) and _is_block(value):
        return _block(head, value, indent)
    return [f"{head} {_scalar(value)}\n"]


def _items(values: Sequence[Any], indent: str) -> list[str]:
    """Return the lines of a list; items start at the column of the list."""
    lines = []
    for value in values:
        if isinstance(value, Mapping) and value:
            first, *rest = _mapping(value, indent + "  ")
            lines += [f"{indent}- {first[len(indent) + 2 :]}", *rest]
        else:
            lines += _entry(f"{indent}-", value, indent + "  ")
    return lines


def _is_block(text: str) -> bool:
    """Return whether a text fits a literal block: several printable lines, no leading blank."""
    if "\n" not in text or text[0] in " \t\n":
        return False
    return all(char == "\n" or char == "\t" or _is_printable(char) for char in text)


def _block(head: str, text: str, indent: str) -> list[str]:
    body = text.rstrip("\n")
    ends = len(text) - len(body)
    style = ("|-", "|")[ends] if ends < 2 else "|+"
    lines = [f"{head} {style}\n"]
    lines += [f"{indent}{line}\n" if line else "\n" for line in body.split("\n")]
    return lines + ["\n"] * max(0, ends - 1)


def _is_printable(char: str) -> bool:
    """Return whether YAML allows a character unescaped; its legacy line breaks are excluded."""
    code = ord(char)
    return (
        0x20 <= code <= 0x7E
        or (0xA0 <= code <= 0xD7FF and code not in (0x2028, 0x2029))
        or (0xE000 <= code <= 0xFFFD and code != 0xFEFF)
        or code >= 0x10000
    )


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return '"' + "".join(map(_quoted, value)) + '"'


def _quoted(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if _is_printable(char):
        return char
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"U+{code:04X} is half a character and cannot be written")
    return f"\\U{code:08x}" if code > 0xFFFF else f"\\u{code:04x}"
