# SPDX-License-Identifier: Apache-2.0
"""Counters of the server, in Prometheus' text format.

Kept as plain dict counters on the request path and rendered on demand: a
scrape every 15 seconds should not cost every request the price of a metrics
library. Names and labels follow kube-apiserver where it has the same metric,
so existing dashboards work.
"""

from collections.abc import Callable
from typing import Any

DURATION_BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)


class Metrics:
    """What the server counts."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str, str, int], int] = {}
        """verb, group, resource, code → count."""
        self._durations: dict[str, list[float]] = {}
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        """name → help text and reader."""

    def observe(self, verb: str, group: str, resource: str, code: int, seconds: float) -> None:
        """Count one finished request."""
        key = (verb, group, resource, code)
        self.requests[key] = self.requests.get(key, 0) + 1
        buckets = self._durations.get(verb)
        if buckets is None:
            buckets = self._durations[verb] = [0.0] * (len(DURATION_BUCKETS_S) + 2)
        buckets[-2] += 1
        buckets[-1] += seconds
        for i, limit in enumerate(DURATION_BUCKETS_S):
            if seconds <= limit:
                buckets[i] += 1
                break

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Expose a value that is read when scraped."""
        self.gauges[name] = (help_text, read)

    def render(self) -> str:
        """Everything in Prometheus' text exposition format."""
        out = [
            "# HELP apiserver_request_total Requests by verb, group, resource and code.",
            "# TYPE apiserver_request_total counter",
        ]
        for (verb, group, resource, code), count in sorted(self.requests.items()):
            labels = _labels(verb=verb, group=group, resource=resource, code=code)
            out.append(f"apiserver_request_total{labels} {count}")
        name = "apiserver_request_duration_seconds"
        out += [f"# HELP {name} Time to answer, by verb.", f"# TYPE {name} histogram"]
        for verb, buckets in sorted(self._durations.items()):
            total = 0.0
            for limit, below in zip(DURATION_BUCKETS_S, buckets, strict=False):
                total += below
                out.append(f"{name}_bucket{_labels(verb=verb, le=limit)} {total:g}")
            out.append(f"{name}_bucket{_labels(verb=verb, le='+Inf')} {buckets[-2]:g}")
            out.append(f"{name}_sum{_labels(verb=verb)} {buckets[-1]:.6f}")
            out.append(f"{name}_count{_labels(verb=verb)} {buckets[-2]:g}")
        for gauge, (help_text, read) in sorted(self.gauges.items()):
            out += [f"# HELP {gauge} {help_text}", f"# TYPE {gauge} gauge", f"{gauge} {read():g}"]
        return "\n".join(out) + "\n"


def _labels(**values: Any) -> str:
    parts = (f'{k}="{_escape(str(v))}"' for k, v in values.items())
    return "{" + ",".join(parts) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
