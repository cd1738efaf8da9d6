# SPDX-License-Identifier: Apache-2.0
"""What a manager counts, in Prometheus' text format.

Plain dicts, rendered when somebody asks: nothing is paid for on the way of a
key but an addition. Names and labels are those of controller-runtime, so its
dashboards work.
"""

from collections.abc import Callable

BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0, 60.0)

_HELP = {
    "controller_runtime_reconcile_total": "Reconciliations per controller and result.",
    "controller_runtime_reconcile_errors_total": "Reconciliations that failed.",
    "controller_runtime_terminal_reconcile_errors_total": "Failures that are not tried again.",
    "controller_runtime_reconcile_panics_total": "Failures that are errors in the reconciler.",
    "controller_runtime_reconcile_time_seconds": "Duration of a reconciliation.",
    "workqueue_adds_total": "Keys added to the queue.",
    "workqueue_retries_total": "Keys that wait after a failure.",
    "workqueue_overflows_total": "Keys that did not fit and are found again by listing.",
    "workqueue_queue_duration_seconds": "Time a key waits for a worker.",
    "rdd_informer_relists_total": "Complete lists an informer has made.",
    "rdd_events_dropped_total": "Events that were not recorded because too many waited.",
}


class Metrics:
    """Counters and histograms with one label set each; gauges are read when asked for."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[str, float]] = {}
        self._histograms: dict[str, dict[str, list[float]]] = {}
        self._gauges: dict[str, tuple[str, dict[str, Callable[[], float]]]] = {}

    def count(self, name: str, by: float = 1, /, **labels: str) -> None:
        """Add to a counter."""
        series = self._counters.setdefault(name, {})
        key = _labels(labels)
        series[key] = series.get(key, 0) + by

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        """Add to a histogram."""
        series = self._histograms.setdefault(name, {})
        key = _labels(labels)
        cells = series.get(key)
        if cells is None:
            cells = series[key] = [0.0] * (len(BUCKETS_S) + 2)
        cells[-2] += 1
        cells[-1] += seconds
        for i, limit in enumerate(BUCKETS_S):
            if seconds <= limit:
                cells[i] += 1
                break

    def gauge(self, name: str, text: str, read: Callable[[], float], /, **labels: str) -> None:
        """Show a value that is read when somebody asks."""
        self._gauges.setdefault(name, (text, {}))[1][_labels(labels)] = read

    def value(self, name: str, /, **labels: str) -> float:
        """A counter, or how often a histogram was added to."""
        key = _labels(labels)
        cells = self._histograms.get(name, {}).get(key)
        return cells[-2] if cells is not None else self._counters.get(name, {}).get(key, 0)

    def render(self) -> str:
        """All of it as text."""
        lines: list[str] = []
        for name, series in sorted(self._counters.items()):
            lines += _head(name, "counter", _HELP.get(name, name))
            lines += [f"{name}{_braces(key)} {value:g}" for key, value in sorted(series.items())]
        for name, (text, readers) in sorted(self._gauges.items()):
            lines += _head(name, "gauge", text)
            lines += [f"{name}{_braces(key)} {read():g}" for key, read in sorted(readers.items())]
        for name, histogram in sorted(self._histograms.items()):
            lines += _head(name, "histogram", _HELP.get(name, name))
            for key, cells in sorted(histogram.items()):
                lines += _histogram(name, key, cells)
        return "\n".join(lines) + "\n"


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _histogram(name: str, key: str, cells: list[float]) -> list[str]:
    lines, total = [], 0.0
    comma = "," if key else ""
    for i, limit in enumerate(BUCKETS_S):
        total += cells[i]
        lines.append(f'{name}_bucket{{{key}{comma}le="{limit:g}"}} {total:g}')
    lines.append(f'{name}_bucket{{{key}{comma}le="+Inf"}} {cells[-2]:g}')
    lines.append(f"{name}_sum{_braces(key)} {cells[-1]:g}")
    lines.append(f"{name}_count{_braces(key)} {cells[-2]:g}")
    return lines


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _braces(key: str) -> str:
    return f"{{{key}}}" if key else ""
