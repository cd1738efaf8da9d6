# SPDX-License-Identifier: Apache-2.0
"""Metrics of the API server.

Names and labels follow kube-apiserver where it has the same metric, so existing dashboards
work.
"""

from collections.abc import Callable

from rdd.base.metrics import Registry

DURATION_BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)


class ServerMetrics(Registry):
    """Requests of the server by verb, resource and code, and their durations."""

    def __init__(self) -> None:
        super().__init__()
        self._requests = self.counter(
            "apiserver_request_total",
            "Requests by verb, group, resource and code.",
            "verb",
            "group",
            "resource",
            "code",
        )
        self._durations = self.histogram(
            "apiserver_request_duration_seconds",
            "Time to answer, by verb.",
            "verb",
            limits=DURATION_BUCKETS_S,
            sum_format=".6f",
        )

    def observe(self, verb: str, group: str, resource: str, code: int, seconds: float) -> None:
        """Count one finished request."""
        # Inlined Counter.add: a tuple that exists already saves a call for every request.
        samples = self._requests.samples
        key = (verb, group, resource, code)
        samples[key] = samples.get(key, 0) + 1
        self._durations.observe(seconds, verb)

    def add_gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Expose a value that is read when a client scrapes."""
        self.gauge(name, help_text).read(read)
