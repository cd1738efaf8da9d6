# SPDX-License-Identifier: Apache-2.0
"""Table and plot of the figures over the number of objects, for docs/performance.md.

Both scales of the plot are logarithmic: a cost that grows in a straight line has the slope of the
dashed line, a cost that does not depend on the number of objects is horizontal.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

BEGIN = "<!-- scale, written by `python -m bench.scale`, do not edit: begin -->"
END = "<!-- scale, written by `python -m bench.scale`: end -->"

ROWS = (
    ("start to /readyz, CPU", "start_cpu_s", "s", 2),
    ("memory after the start", "start_mib", "MiB", 0),
    ("limit: 60 MiB + 1.5 × encoded objects", "limit_mib", "MiB", 0),
    ("GET, 8 clients", "get_us", "µs", 0),
    ("LIST with limit=500", "page_us", "µs", 0),
    ("create, then LIST with limit=500", "page_after_write_us", "µs", 0),
    ("LIST of everything with a selector that matches nothing", "selector_cpu_s", "s", 3),
    ("LIST of everything, streamed", "list_cpu_s", "s", 3),
    ("watch that starts with everything, to its bookmark", "watch_cpu_s", "s", 3),
    ("owner deleted, 1,000 dependents collected", "gc_cpu_s", "s", 2),
    ("namespace with 1,000 objects deleted", "namespace_cpu_s", "s", 2),
    ("longest hold of the loop in all of these", "hold_ms", "ms", 0),
)

LINES = (
    ("start", "start_cpu_s", "#2f6fb5"),
    ("LIST of everything", "list_cpu_s", "#c0392b"),
    ("watch with state", "watch_cpu_s", "#8e44ad"),
    ("page after a write", "page_after_write_us", "#27ae60"),
    ("GET", "get_us", "#e67e22"),
)
MICRO = 1e-6
LEFT, TOP, WIDTH, HEIGHT = 70, 40, 560, 320
SLOWEST, FASTEST = 100.0, 1e-5


def completed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures with those that are derived from them."""
    gaps = [
        min(found[name], found[name.replace("_gap_ms", "_gap_cpu_ms")])
        for name in found
        if name.endswith("_gap_ms") and not name.startswith(("idle", "updates"))
    ]
    limit = 60 + 1.5 * found["bytes"] / 2**20
    return {**found, "hold_ms": max(gaps, default=0.0), "limit_mib": limit}


def table(sizes: Sequence[Mapping[str, Any]]) -> str:
    """Return the table."""
    sizes = [completed(found) for found in sizes]
    heads = " | ".join(f"{found['objects']:,}" for found in sizes)
    lines = [f"| objects | {heads} |", "|---" * (len(sizes) + 1) + "|"]
    for name, key, unit, digits in ROWS:
        values = " | ".join(f"{found[key]:,.{digits}f} {unit}" for found in sizes)
        lines.append(f"| {name} | {values} |")
    return "\n".join(lines)


def _x(count: float, first: float, last: float) -> float:
    share = (math.log(count) - math.log(first)) / (math.log(last) - math.log(first))
    return round(LEFT + share * WIDTH, 1)


def _y(seconds: float) -> float:
    share = (math.log(seconds) - math.log(FASTEST)) / (math.log(SLOWEST) - math.log(FASTEST))
    return round(TOP + HEIGHT - share * HEIGHT, 1)


def plot(sizes: Sequence[Mapping[str, Any]]) -> str:
    """Return the plot as SVG: CPU seconds over the number of objects."""
    first, last = sizes[0]["objects"], sizes[-1]["objects"]
    width, height = LEFT + WIDTH + 150, TOP + HEIGHT + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        "<title>CPU time over the number of objects</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="8" y="18" font-weight="bold">CPU seconds over the number of objects</text>',
    ]
    for power in range(-5, 3):
        y = _y(10.0**power)
        lines.append(f'<path d="M{LEFT} {y}H{LEFT + WIDTH}" stroke="#dddddd"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{10.0**power:g} s</text>')
    for found in sizes:
        x = _x(found["objects"], first, last)
        lines.append(f'<path d="M{x} {TOP}V{TOP + HEIGHT}" stroke="#dddddd"/>')
        text, y = f"{found['objects']:,}", TOP + HEIGHT + 18
        lines.append(f'<text x="{x}" y="{y}" text-anchor="middle">{text}</text>')
    steepest = _y(1e-2), _y(1e-2 * last / first)
    lines.append(
        f'<path d="M{LEFT} {steepest[0]}L{LEFT + WIDTH} {steepest[1]}" stroke="#999999" '
        'stroke-dasharray="4 4"/>'
    )
    for name, key, colour in LINES:
        factor = MICRO if key.endswith("_us") else 1.0
        points = [(_x(f["objects"], first, last), _y(f[key] * factor)) for f in sizes]
        path = "L".join(f"{x} {y}" for x, y in points)
        lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x, y = points[-1]
        lines.append(f'<text x="{x + 8}" y="{y + 4}" fill="{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])
