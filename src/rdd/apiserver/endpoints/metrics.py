# SPDX-License-Identifier: Apache-2.0
"""Metrics of the API server.

Names and labels follow kube-apiserver where it has the same metric, so existing dashboards
work.

Labels come from what is served, never from the text of a request: anybody can request any path,
and a sample is kept until the daemon ends. Other methods, groups and resources are counted as
`other`, and the samples of a resource end with its definition.

Counters and histograms are declared here. Gauges read the state of the server when they are asked
and are declared in `apiserver/server.py`, those of the event loop in `daemon/loop_watchdog.py`.
"""

from collections.abc import Callable

from rdd.base.metrics import Registry

DURATION_BUCKETS_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)


OTHER = "other"
_VERBS = frozenset(
    ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
     "head", "post", "put", "options", OTHER)
)  # fmt: skip
_NONE = ("", "")
_OTHER_RESOURCE = ("", OTHER)
ResourceName = tuple[str, str]
"""Group and plural."""


class ServerMetrics(Registry):
    """Requests of the server by verb, resource and code, and their durations.

    `is_served` is asked once for each new combination of labels.
    """

    def __init__(self, is_served: Callable[[ResourceName], bool] = lambda _: False) -> None:
        super().__init__()
        self._is_served = is_served
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
        count = samples.get(key)
        if count is None:
            verb = verb if verb in _VERBS else OTHER
            name = (group, resource)
            if name != _NONE and not self._is_served(name):
                name = _OTHER_RESOURCE
            key = (verb, *name, code)
            count = samples.get(key, 0)
        samples[key] = count + 1
        self._durations.observe(seconds, verb)

    def forget(self, group: str, resource: str) -> None:
        """Drop the samples of a resource that is no longer served."""
        samples = self._requests.samples
        for key in [key for key in samples if key[1:3] == (group, resource)]:
            del samples[key]

    def add_gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Expose a value that is read when a client scrapes."""
        self.gauge(name, help_text).read(read)
