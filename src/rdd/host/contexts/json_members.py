# SPDX-License-Identifier: Apache-2.0
"""Change one member of a JSON object in its text; every other byte stays the same.

    set_member(text, "currentContext", "rancher-desktop-2")
    without_member(text, "currentContext")

The decoder of the standard library finds the members of the outermost object and their
positions, so every document that it can read can be changed. A new member is appended,
indented like the first.
"""

import json
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_SPACE = " \t\r\n"
_decoder = json.JSONDecoder()


class Member(NamedTuple):
    """A member of an object: its name, and the positions of name and value in the text."""

    name: str
    start: int
    value_start: int
    end: int


def members(text: str) -> list[Member]:
    """Return the members of the outermost object. Raises ValueError."""
    if not isinstance(json.loads(text), dict):
        raise ValueError("the text is not a JSON object")
    return list(_members(text))


def set_member(text: str, name: str, value: Any) -> str:
    """Return the text with a member set; of several with that name the last one is effective."""
    found = members(text)
    encoded = json.dumps(value)
    same = [member for member in found if member.name == name]
    if same:
        last = same[-1]
        return text[: last.value_start] + encoded + text[last.end :]
    pair = f"{json.dumps(name)}: {encoded}"
    if not found:
        start = text.index("{") + 1
        return f"{text[:start]}\n\t{pair}\n{text[text.index('}', start) :]}"
    gap = text[text.index("{") + 1 : found[0].start]
    end = found[-1].end
    return f"{text[:end]},{gap or ' '}{pair}{text[end:]}"


def without_member(text: str, name: str) -> str:
    """Return the text without all members of a name."""
    while True:
        found = members(text)
        place = next((i for i, member in enumerate(found) if member.name == name), None)
        if place is None:
            return text
        if place + 1 < len(found):
            start, end = found[place].start, found[place + 1].start
        elif place > 0:
            start, end = found[place - 1].end, found[place].end
        else:
            start, end = found[place].start, found[place].end
            if not text[text.index("{") + 1 : start].strip() and "\n" in text[:start]:
                start = text.index("{") + 1
                end = text.index("}", end)
        text = text[:start] + text[end:]


def _members(text: str) -> Iterator[Member]:
    place = _skip(text, text.index("{") + 1)
    while text[place] != "}":
        start = place
        name, place = scanstring(text, place + 1)
        place = _skip(text, _skip(text, place) + 1)  # the colon
        _, end = _decoder.raw_decode(text, place)
        yield Member(name, start, place, end)
        place = _skip(text, end)
        if text[place] == ",":
            place = _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    while text[place] in _SPACE:
        place += 1
    return place
