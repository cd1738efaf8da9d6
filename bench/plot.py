# SPDX-License-Identifier: Apache-2.0
"""The plot of the report: bars on a logarithmic scale, as SVG.

One group of two bars per kind of request: the factor in requests per second, and the factor
in CPU time per request. A notch on the upper bar is the target. The scale is logarithmic
because half and double have the same distance from equal.
"""

import math
from dataclasses import dataclass
from html import escape

TICKS = (0.5, 1, 2, 3, 5, 10, 20)
LEFT, WIDTH, TOP, ROW, BAR = 190, 560, 56, 30, 10
RATE_COLOUR, COST_COLOUR, PROMISE_COLOUR = "#2f6fb5", "#9dc3e6", "#c0392b"


@dataclass(frozen=True, slots=True)
class Bar:
    """One group: the factors of a row."""

    name: str
    rate: float
    cost: float | None
    promise: float


def _x(factor: float) -> float:
    first, last = math.log(TICKS[0]), math.log(TICKS[-1])
    share = (math.log(min(max(factor, TICKS[0]), TICKS[-1])) - first) / (last - first)
    return round(LEFT + share * WIDTH, 1)


def factors(bars: list[Bar], *, against: str) -> str:
    """Return the plot."""
    height = TOP + ROW * len(bars) + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 50} {height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>rdd against {escape(against)}</title>",
        f'<rect width="{LEFT + WIDTH + 50}" height="{height}" fill="#ffffff"/>',
        *_legend(against),
    ]
    for tick in TICKS:
        x, colour = _x(tick), "#555555" if tick == 1 else "#dddddd"
        lines.append(
            f'<path d="M{x} {TOP - 4}V{height - 14}" stroke="{colour}"/>'
            f'<text x="{x}" y="{height - 2}" text-anchor="middle" fill="#555555">{tick:g}×</text>'
        )
    for number, bar in enumerate(bars):
        lines += _group(bar, TOP + ROW * number)
    return "\n".join([*lines, "</svg>", ""])


def _legend(against: str) -> list[str]:
    return [
        f'<text x="8" y="18" font-weight="bold">rdd against {escape(against)}</text>',
        f'<rect x="8" y="30" width="10" height="10" fill="{RATE_COLOUR}"/>',
        '<text x="22" y="39">requests per second</text>',
        f'<rect x="160" y="30" width="10" height="10" fill="{COST_COLOUR}"/>',
        '<text x="174" y="39">CPU time per request (reference ÷ rdd)</text>',
        f'<rect x="412" y="28" width="3" height="14" fill="{PROMISE_COLOUR}"/>',
        '<text x="420" y="39">promised</text>',
    ]


def _group(bar: Bar, y: int) -> list[str]:
    lines = [f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(bar.name)}</text>']
    for factor, colour, top in ((bar.rate, RATE_COLOUR, y), (bar.cost, COST_COLOUR, y + BAR)):
        if factor is None:
            continue
        start, end = sorted((_x(1), _x(factor)))
        lines.append(
            f'<rect x="{start}" y="{top}" width="{round(end - start, 1)}" height="{BAR - 1}" '
            f'fill="{colour}"/>'
            f'<text x="{max(end, _x(1)) + 4}" y="{top + 9}" font-size="9">{factor:.1f}</text>'
        )
    promise = f'<rect x="{_x(bar.promise) - 1.5}" y="{y - 2}" width="3" height="{BAR + 3}"'
    return [*lines, f'{promise} fill="{PROMISE_COLOUR}"/>']
