# SPDX-License-Identifier: Apache-2.0
"""Metrics of a manager.

Names and labels are those of controller-runtime, so its dashboards work.
"""

from rdd.base.metrics import Gauge, Registry

BUCKETS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60)


class Metrics(Registry):
    """Metrics of the controllers, queues and informers of one manager."""

    def __init__(self) -> None:
        super().__init__()
        self.reconcile_errors = self.counter(
            "controller_runtime_reconcile_errors_total",
            "Reconciliations that failed.",
            "controller",
        )
        self.reconcile_panics = self.counter(
            "controller_runtime_reconcile_panics_total",
            "Failures that are errors in the reconciler.",
            "controller",
        )
        self.reconciles = self.counter(
            "controller_runtime_reconcile_total",
            "Reconciliations per controller and result.",
            "controller",
            "result",
        )
        self.terminal_errors = self.counter(
            "controller_runtime_terminal_reconcile_errors_total",
            "Failures that are not tried again.",
            "controller",
        )
        self.events_dropped = self.counter(
            "rdd_events_dropped_total",
            "Events that were not recorded because too many waited.",
            "controller",
        )
        self.relists = self.counter(
            "rdd_informer_relists_total", "Complete lists an informer has made.", "resource"
        )
        self.queue_adds = self.counter("workqueue_adds_total", "Keys added to the queue.", "name")
        self.queue_overflows = self.counter(
            "workqueue_overflows_total",
            "Keys that did not fit and are found again by listing.",
            "name",
        )
        self.queue_retries = self.counter(
            "workqueue_retries_total", "Keys that wait after a failure.", "name"
        )
        self.queue_depth = self.gauge("workqueue_depth", "Keys that wait for a worker.", "name")
        self.queue_unfinished = self.gauge("workqueue_unfinished", "Keys workers have.", "name")
        self.reconcile_time = self.histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconciliation.",
            "controller",
            limits=BUCKETS_S,
        )
        self.queue_time = self.histogram(
            "workqueue_queue_duration_seconds",
            "Time a key waits for a worker.",
            "name",
            limits=BUCKETS_S,
        )

    def own_gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        """Return the gauge of a controller, which may start several times in one manager."""
        found = self._families.get(name)
        return found if isinstance(found, Gauge) else self.gauge(name, help_text, *labels)
