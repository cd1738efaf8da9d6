# SPDX-License-Identifier: Apache-2.0
"""Text that fits the width of a terminal: filled paragraphs and hanging indents.

Words are never broken, and neither are commands to be pasted (`unbroken`): what is longer than
a line stays whole, and the terminal wraps it without a line break in what is copied. A width
of 0 means no limit (pipes and files).
"""

from collections.abc import Sequence

_MIN_TEXT = 20  # columns beside an indent; with less the text goes below
_MAX_WORD = 32  # longer ones may exceed the width
_BELOW = 6  # indent of a text below its name
_NO_BREAK = "\u00a0"


def unbroken(text: str, *, in_quotes: bool = False) -> str:
    """Return a text that stays in one line, or in which the commands in backquotes do."""
    if not in_quotes:
        return text.replace(" ", _NO_BREAK)
    parts = text.split("`")
    parts[1::2] = map(unbroken, parts[1::2])
    return "`".join(parts)


def filled(text: str, width: int, *, start: str = "", indent: str = "") -> list[str]:
    """Return the lines of a text: the first behind `start`, the others behind `indent`."""
    import textwrap

    if not width:
        return [f"{start}{text}".rstrip().replace(_NO_BREAK, " ")]
    lines = textwrap.wrap(
        text,
        max(width, _MIN_TEXT, len(indent) + 1, len(start) + 1),
        initial_indent=start,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_NO_BREAK, " ") for line in lines] or [start.rstrip()]


def columns(rows: Sequence[Sequence[str]], width: int, *, margin: str = "  ") -> list[str]:
    """Return aligned columns, the last of which is filled to the width.

    If it would get less than 20 columns, or a usual word does not fit, it stands below the others.
    """
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)][:-1]
    indent = " " * (len(margin) + sum(n + 2 for n in widths))
    words = (len(word) for row in rows for word in row[-1].split())
    least = max((n for n in words if n <= _MAX_WORD), default=0)
    if not width or width - len(indent) >= max(_MIN_TEXT, least):
        return [line for row in rows for line in _beside(row, widths, indent, margin, width)]
    return [line for row in rows for line in _below(row, margin, width)]


def _beside(
    row: Sequence[str], widths: Sequence[int], indent: str, margin: str, width: int
) -> list[str]:
    cells = [f"{cell:<{n}}" for cell, n in zip(row[:-1], widths, strict=True)]
    return filled(row[-1], width, start=margin + "  ".join([*cells, ""]), indent=indent)


def _below(row: Sequence[str], margin: str, width: int) -> list[str]:
    head = filled("  ".join(filter(None, row[:-1])), width, start=margin, indent=margin)
    indent = " " * _BELOW
    return [*head, *(filled(row[-1], width, start=indent, indent=indent) if row[-1] else ())]
