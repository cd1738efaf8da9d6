# SPDX-License-Identifier: Apache-2.0
"""Create the report from the results: medians, factors, targets, and a plot.

    python -m bench.report [--publish]

Reads results/*.json and prints the tables; with --publish it also rewrites the parts of
docs/performance.md between the markers and draws docs/performance/apiserver.svg. Exits with 1
if a target of `reference` is missed.
"""

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from bench import plot, reference
from bench.apiserver import RESULTS
from bench.reference import Bound, Row

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "performance.md"
PLOT = DOCS / "performance" / "apiserver.svg"
BEGIN = "<!-- {}written by `make bench`, do not edit: begin -->"
END = "<!-- {}written by `make bench`: end -->"
NOISY = 0.1


@dataclass(slots=True)
class Report:
    """All measurements, as medians over the runs, and the report."""

    runs: list[dict[str, Any]]
    start: dict[str, Any]
    desktop: dict[str, Any]
    broken: list[str] = field(default_factory=list)

    def figure(self, path: tuple[str, ...]) -> float | None:
        """Return the median of a figure, or None if it was not measured."""
        sources = {"apiserver": self.runs, "start": [self.start], "desktop": [self.desktop]}
        return _median(sources[path[0]], path[1:])

    def row(self, name: str, figure: str) -> float | None:
        """Return a figure of a row, from the undisturbed runs, if any."""
        rows = [run["rows"][name] for run in self.runs if name in run["rows"]]
        quiet = [row for row in rows if row.get("foreign_load", 0) <= NOISY]
        return _median(quiet or rows, (figure,))

    def text(self) -> str:
        """Return the report on the API server in Markdown."""
        bounds = self._bounds(reference.BOUNDS)
        parts = [*self._requests(), "", *bounds, "", *self._split(), "", *self._verdict()]
        return "\n".join(parts)

    def desktop_text(self) -> str:
        """Return the report on the App and its machine; empty if it was not measured."""
        return "\n".join(self._bounds(reference.DESKTOP)) if self.desktop else ""

    def bars(self) -> list[plot.Bar]:
        """Return factors over the reference: requests per second, and CPU time per request."""
        found = []
        for name, row in reference.ROWS.items():
            rate, cost = self.row(name, "per_second"), self.row(name, "server_us")
            if rate is None or row.per_second is None:
                continue
            cheaper = row.server_us / cost if row.server_us and cost else None
            found.append(plot.Bar(name, rate / row.per_second, cheaper, row.factor or 1.0))
        return found

    def _requests(self) -> Iterator[str]:
        yield (
            f"Median of {len(self.runs)} run{'s' * (len(self.runs) > 1)}, {os.cpu_count()} cores, "
            f"{platform.system()}, Python {platform.python_version()}; in brackets the factor over "
            f"{reference.SOURCE}. Runs of a row in which something else used more than {NOISY:g} "
            "cores are left out."
        )
        yield ""
        yield "| request | per second | p50 ms | p99 ms | server CPU µs | promise | kept |"
        yield "|---|---|---|---|---|---|---|"
        for name, row in reference.ROWS.items():
            if self.row(name, "operations") is None:
                continue
            misses = list(self._misses(name, row))
            self.broken += [f"{name}: {miss}" for miss in misses]
            cells = [
                name,
                self._versus(name, "per_second", row.per_second, higher=True),
                self._versus(name, "p50_ms", row.p50_ms),
                self._versus(name, "p99_ms", row.p99_ms),
                self._versus(name, "server_us", row.server_us),
                _promise(row),
                "yes" if not misses else "**no**",
            ]
            yield f"| {' | '.join(cells)} |"

    def _versus(self, name: str, figure: str, theirs: float | None, *, higher: bool = False) -> str:
        ours = self.row(name, figure)
        if ours is None or (higher and not theirs):
            return ""
        if not theirs:
            return shown(ours)
        factor = ours / theirs if higher else theirs / max(ours, 1e-9)
        return f"{shown(ours)} ({factor:.1f}×)"

    def _misses(self, name: str, row: Row) -> Iterator[str]:
        rate, p50, cost = (self.row(name, f) for f in ("per_second", "p50_ms", "server_us"))
        if row.factor and row.per_second and rate and rate < row.factor * row.per_second:
            yield f"{rate / row.per_second:.2f}× instead of {row.factor:g}× per second"
        if row.p50_ms and p50 and p50 > row.p50_ms:
            yield f"p50 {shown(p50)} ms, reference {shown(row.p50_ms)} ms"
        if row.server_us and cost and cost > reference.CPU_SHARE * row.server_us:
            yield f"{shown(cost)} µs of CPU, reference {shown(row.server_us)} µs"
        if row.max_us and cost and cost > row.max_us:
            yield f"{shown(cost)} µs of CPU instead of {row.max_us:g} µs"
        if row.max_p50_ms and p50 and p50 > row.max_p50_ms:
            yield f"p50 {shown(p50)} ms instead of {row.max_p50_ms:g} ms"

    def _bounds(self, bounds: Sequence[Bound]) -> Iterator[str]:
        has_reference = any(bound.reference for bound in bounds)
        yield f"| figure | measured | limit |{' reference |' * has_reference} kept |"
        yield f"|---|---|---|{'---|' * has_reference}---|"
        for bound in bounds:
            ours = self.figure(bound.source)
            if ours is None:
                continue
            theirs = f"{shown(bound.reference)} {bound.unit}" if bound.reference else ""
            limit, kept = "", ""
            if bound.limit is not None:
                limit, kept = f"{bound.limit:g} {bound.unit}", "yes"
                if ours > bound.limit:
                    kept = "**no**"
                    self.broken.append(f"{bound.name}: {shown(ours)} {bound.unit}")
            cells = [bound.name, f"{shown(ours)} {bound.unit}", limit]
            cells += [theirs, kept] if has_reference else [kept]
            yield f"| {' | '.join(cells)} |"

    def _split(self) -> Iterator[str]:
        steps: dict[str, dict[str, float]] = self.start.get("split", {})
        if not steps:
            return
        yield "Milliseconds of a start, after the interpreter's own 10:"
        yield ""
        yield f"| step | {' | '.join(steps)} |"
        yield f"|---{'|---' * len(steps)}|"
        for step in next(iter(steps.values())):
            yield f"| {step} | {' | '.join(f'{one[step]:.0f}' for one in steps.values())} |"

    def _verdict(self) -> Iterator[str]:
        if self.broken:
            yield "Promises that were not kept in this measurement:"
            yield ""
            yield from (f"- {one}" for one in self.broken)
        else:
            yield "Every promise was kept in this measurement."
        noisy = [
            name
            for name in reference.ROWS
            if (self.row(name, "foreign_load") or 0) > NOISY and self.row(name, "operations")
        ]
        if noisy:
            yield ""
            yield (
                f"Something else used the machine during every run of: {'; '.join(noisy)}. "
                "Do not trust rates and latencies of these rows."
            )


def _median(sources: list[dict[str, Any]], path: tuple[str, ...]) -> float | None:
    found: list[float] = []
    for source in sources:
        value: Any = source
        for key in path:
            value = value.get(key, {}) if isinstance(value, dict) else {}
        if isinstance(value, int | float):
            found.append(float(value))
    return statistics.median(found) if found else None


def _promise(row: Row) -> str:
    parts = [f"≥ {row.factor:g}×"] if row.factor else []
    parts += [f"≤ {row.max_us:g} µs"] if row.max_us else []
    parts += [f"p50 ≤ {row.max_p50_ms:g} ms"] if row.max_p50_ms else []
    return ", ".join(parts)


def shown(value: float) -> str:
    """Return a number with its significant digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def read() -> Report:
    """Return the report of results/."""
    runs = [orjson.loads(p.read_bytes()) for p in sorted(RESULTS.glob("apiserver-*.json"))]
    return Report(runs, _results("start"), _results("desktop"))


def _results(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return orjson.loads(path.read_bytes()) if path.exists() else {}


def publish(text: str, desktop: str, bars: list[plot.Bar]) -> None:
    """Write the report into the documentation."""
    page = _with(PAGE.read_text(), "", text)
    if desktop:
        page = _with(page, "desktop, ", desktop)
    PAGE.write_text(page)
    PLOT.parent.mkdir(exist_ok=True)
    PLOT.write_text(plot.factors(bars, against=reference.SOURCE))


def _with(page: str, part: str, text: str) -> str:
    before, begin, rest = page.partition(BEGIN.format(part))
    _, end, after = rest.partition(END.format(part))
    if not begin or not end:
        raise SystemExit(f"{PAGE} has no markers for the report")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.report", description="tables of the results")
    parser.add_argument("--publish", action="store_true", help="write them to docs/")
    given = parser.parse_args(arguments)
    report = read()
    if not report.runs:
        raise SystemExit("bench/results is empty; run `make bench` first")
    desktop = report.desktop_text()
    text = report.text()  # printed last: it ends with the missed targets
    print(text, desktop, sep="\n\n")
    if given.publish:
        publish(text, desktop, report.bars())
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
