# SPDX-License-Identifier: Apache-2.0
"""Tables on stdout: aligned columns that fit the terminal.

On a terminal the widest columns are shortened until a row fits in a line; in pipes and
files every cell is complete. Control characters are escaped.
"""

from collections.abc import Sequence

from rdd.base.gotext import quote
from rdd.cli.framework.environment import terminal_width
from rdd.cli.framework.types import Call

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
    if width:
        _shrink(widths, width - len(_GAP) * (len(widths) - 1))
    lines = (
        _GAP.join(_fitted(cell, n).ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "".join(f"{line}\n" for line in lines)


def _shrink(widths: list[int], total: int) -> None:
    """Shorten the widest column, then the next, until the sum fits."""
    excess = sum(widths) - total
    while excess > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        second = sorted(widths)[-2] if len(widths) > 1 else 0
        least = max(_MIN_COLUMN, min(second, widths[widest] - 1))
        if widths[widest] <= least:
            return
        cut = min(excess, widths[widest] - least)
        widths[widest] -= cut
        excess -= cut


def _fitted(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(char: str) -> str:
    return char if char.isprintable() else quote(char)[1:-1]
