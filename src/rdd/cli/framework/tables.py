# SPDX-License-Identifier: Apache-2.0
"""Tables on stdout: aligned columns that fit the terminal.

On a terminal the widest columns are shortened until a row fits in a line, but not the first:
commands take what it has. Rows for which the terminal is too narrow become blocks of lines. In
pipes and files every cell is complete. Control characters are escaped.
"""

from collections.abc import Sequence

from rdd.base.gotext import quote
from rdd.cli.framework.environment import terminal_width
from rdd.cli.framework.types import Call
from rdd.cli.framework.wrapping import columns, filled

Row = Sequence[str]

_GAP = "   "
_MIN_COLUMN = 8  # columns are not shortened below this


def write_table(call: Call, rows: Sequence[Row]) -> None:
    """Print rows, the first of which are the headers."""
    call.out.write(table(rows, width=terminal_width(call.out)))


def table(rows: Sequence[Row], *, width: int = 0) -> str:
    """Return rows as text that fits in `width` columns; 0 means no limit."""
    cells = [[_printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if width and not _shrink(widths, width - len(_GAP) * (len(widths) - 1)):
        return _records(cells, width)
    lines = (
        _GAP.join(_fitted(cell, n).ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "".join(f"{line}\n" for line in lines)


def _shrink(widths: list[int], total: int) -> bool:
    """Shorten the widest column, then the next, until the sum fits; return whether it does."""
    excess = sum(widths) - total
    others = range(1, len(widths))
    while excess > 0:
        widest = max(others, key=widths.__getitem__, default=0)
        second = max((widths[i] for i in others if i != widest), default=0)
        least = max(_MIN_COLUMN, min(second, widths[widest] - 1))
        if not widest or widths[widest] <= least:
            return False
        cut = min(excess, widths[widest] - least)
        widths[widest] -= cut
        excess -= cut
    return True


def _records(cells: Sequence[Row], width: int) -> str:
    """Return one block of lines per row, each with the header and the complete cell."""
    headers, *rows = cells
    blocks = (columns([*zip(headers, row, strict=True)], width, margin="") for row in rows)
    text = "\n\n".join("\n".join(block) for block in blocks)
    return f"{text}\n" if rows else "\n".join(filled(" ".join(headers), width)) + "\n"


def _fitted(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    return char if char.isprintable() else quote(char)[1:-1]
