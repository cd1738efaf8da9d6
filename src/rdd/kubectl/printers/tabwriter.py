# SPDX-License-Identifier: Apache-2.0
"""Columns as Go's text/tabwriter lays them out.

A column is a run of neighbouring lines with a cell in it that is followed by a tab;
its width is that of its widest cell plus padding. The last cell of a line belongs
to no column. With `keeps_widths`, columns stay aligned over several flushes, as
`get --watch` needs it.
"""


class TabWriter:
    """Collects lines with tabs; `flush` returns them aligned."""

    def __init__(self, *, min_width: int = 6, padding: int = 3, keeps_widths: bool = False) -> None:
        self._min_width = min_width
        self._padding = padding
        self._keeps_widths = keeps_widths
        self._widest: list[int] = []
        self._lines: list[list[str]] = []
        self._widths: list[int] = []

    def line(self, *cells: str) -> None:
        self._lines.append(list(cells))

    def text(self, text: str) -> None:
        """Add the lines of a text, whose cells are separated by tabs."""
        self._lines += [line.split("\t") for line in text.split("\n")]

    def flush(self) -> str:
        """Return the lines since the last flush, each with its newline."""
        out: list[str] = []
        self._format(out, 0, len(self._lines))
        self._lines = []
        return "".join(out)

    def _format(self, out: list[str], first: int, end: int) -> None:
        column = len(self._widths)
        this = first
        while this < end:
            if column >= len(self._lines[this]) - 1:
                this += 1
                continue
            self._write(out, first, this)
            first = this
            width = self._min_width
            while this < end and column < len(self._lines[this]) - 1:
                width = max(width, len(self._lines[this][column]) + self._padding)
                this += 1
            if self._keeps_widths:
                self._widest += [0] * (column + 1 - len(self._widest))
                width = self._widest[column] = max(width, self._widest[column])
            self._widths.append(width)
            self._format(out, first, this)
            self._widths.pop()
            first = this
        self._write(out, first, end)

    def _write(self, out: list[str], first: int, end: int) -> None:
        for line in self._lines[first:end]:
            for index, cell in enumerate(line):
                is_padded = index < len(self._widths)
                out.append(cell.ljust(self._widths[index]) if is_padded else cell)
            out.append("\n")


def aligned(text: str, *, min_width: int = 6, padding: int = 3) -> str:
    """Align the columns of a text that are separated by tabs."""
    writer = TabWriter(min_width=min_width, padding=padding)
    writer.text(text.removesuffix("\n"))
    return writer.flush()
