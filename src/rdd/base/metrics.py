# SPDX-License-Identifier: Apache-2.0
"""Counters, gauges and histograms in the Prometheus text format.

A `Registry` holds metric families in the order in which they are declared and renders those
that have a sample. A family keeps one sample for each tuple of label values:

    registry = Registry()
    retries = registry.counter("workqueue_retries_total", "Retries of keys.", "name")
    retries.add("app")
    registry.gauge("workqueue_depth", "Queued keys.", "name").read(queue.__len__, "app")
    registry.render()

The hot path pays for a dict update, not for text: labels are escaped and formatted when a
client scrapes. There are no locks, so all updates happen in one thread.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

LabelValues = tuple[str | int, ...]


class Counter:
    """A number for each tuple of label values that only grows."""

    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self.name, self.help_text, self.labels = name, help_text, tuple(labels)
        self.samples: dict[LabelValues, int] = {}

    def add(self, *values: str | int, by: int = 1) -> None:
        """Add to the sample with these label values."""
        self.samples[values] = self.samples.get(values, 0) + by

    def lines(self) -> Iterable[str]:
        """Return the samples as text."""
        for values, count in sorted(self.samples.items()):
            yield f"{self.name}{_braces(_pairs(self.labels, values))} {count}"


class Gauge:
    """Values that are read when a client scrapes."""

    kind = "gauge"

    def __init__(self, name: str, help_text: str, labels: Sequence[str]) -> None:
        self.name, self.help_text, self.labels = name, help_text, tuple(labels)
        self.samples: dict[LabelValues, Callable[[], float]] = {}

    def read(self, source: Callable[[], float], *values: str | int) -> None:
        """Read the sample with these label values from a callback."""
        self.samples[values] = source

    def forget(self, *values: str | int) -> None:
        """Remove the sample with these label values, if there is one."""
        self.samples.pop(values, None)

    def lines(self) -> Iterable[str]:
        """Return the samples as text."""
        for values in sorted(self.samples):
            labels = _braces(_pairs(self.labels, values))
            yield f"{self.name}{labels} {self.samples[values]():g}"


class Histogram:
    """Durations in buckets, for each tuple of label values."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str],
        *,
        limits: Sequence[float],
        sum_format: str = "g",
    ) -> None:
        self.name, self.help_text, self.labels = name, help_text, tuple(labels)
        self.limits = tuple(limits)
        self._sum_format = sum_format
        self.samples: dict[LabelValues, list[float]] = {}
        """Observations in each bucket, above the last limit, and the sum of all values."""

    def observe(self, seconds: float, *values: str | int) -> None:
        """Add a duration to the sample with these label values."""
        cells = self.samples.get(values)
        if cells is None:
            cells = self.samples[values] = [0.0] * (len(self.limits) + 2)
        cells[bisect_left(self.limits, seconds)] += 1
        cells[-1] += seconds

    def lines(self) -> Iterable[str]:
        """Return the samples as text."""
        for values, cells in sorted(self.samples.items()):
            pairs = _pairs(self.labels, values)
            comma = "," if pairs else ""
            total = 0.0
            for limit, count in zip(self.limits, cells, strict=False):
                total += count
                yield f'{self.name}_bucket{{{pairs}{comma}le="{limit}"}} {total:g}'
            total += cells[-2]
            yield f'{self.name}_bucket{{{pairs}{comma}le="+Inf"}} {total:g}'
            yield f"{self.name}_sum{_braces(pairs)} {cells[-1]:{self._sum_format}}"
            yield f"{self.name}_count{_braces(pairs)} {total:g}"


_Family = TypeVar("_Family", Counter, Gauge, Histogram)


class Registry:
    """Metric families by name, rendered in the order of their declaration."""

    def __init__(self) -> None:
        self._families: dict[str, Counter | Gauge | Histogram] = {}

    def counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """Declare a counter."""
        return self._declare(Counter(name, help_text, labels))

    def gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        """Declare a gauge."""
        return self._declare(Gauge(name, help_text, labels))

    def histogram(
        self,
        name: str,
        help_text: str,
        *labels: str,
        limits: Sequence[float],
        sum_format: str = "g",
    ) -> Histogram:
        """Declare a histogram with these upper limits of its buckets."""
        return self._declare(
            Histogram(name, help_text, labels, limits=limits, sum_format=sum_format)
        )

    def value(self, name: str, /, **labels: str | int) -> float:
        """Return a counter, the reading of a gauge, or the number of observations."""
        family = self._families[name]
        values = tuple(labels[label] for label in family.labels)
        match family:
            case Counter():
                return family.samples.get(values, 0)
            case Gauge():
                return family.samples[values]()
            case Histogram():
                return sum(family.samples.get(values, (0.0,))[:-1])

    def render(self) -> str:
        """Return all samples in the text exposition format."""
        lines = []
        for family in self._families.values():
            if family.samples:
                lines.append(f"# HELP {family.name} {family.help_text}")
                lines.append(f"# TYPE {family.name} {family.kind}")
                lines += family.lines()
        return "\n".join(lines) + "\n"

    def _declare(self, family: _Family) -> _Family:
        if family.name in self._families:
            raise ValueError(f"the metric {family.name} is declared twice")
        self._families[family.name] = family
        return family


def _pairs(labels: Sequence[str], values: LabelValues) -> str:
    return ",".join(
        f'{label}="{_escape(str(value))}"' for label, value in zip(labels, values, strict=True)
    )


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _braces(pairs: str) -> str:
    return f"{{{pairs}}}" if pairs else ""
