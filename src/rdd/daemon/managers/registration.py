# SPDX-License-Identifier: Apache-2.0
"""The entry of a controller manager in the discovery ConfigMap.

One key per manager (`embedded`, or the group of an external program) with a JSON text that
programs outside of rdd read: names and order of its members are an interface. An entry contains
the local ports of a manager. It does not determine ownership; the Leases do.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Registration:
    """The entry of a manager."""

    health_port: int
    metrics_port: int
    controllers: Sequence[str] = ()
    """The running ones, without the built-in ones."""
    passthroughs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Controller → endpoints."""
    passthrough_endpoint: str = ""
    """The URL of the endpoints."""

    def text(self, *, now: float | None = None) -> str:
        """Return the entry as JSON, with the current time as start time."""
        started = time.gmtime(now if now is not None else time.time())
        return json.dumps(
            {
                "healthPort": self.health_port,
                "metricsPort": self.metrics_port,
                "enabledControllers": list(self.controllers) or None,
                "enabledPassthroughs": {n: list(e) for n, e in self.passthroughs.items()},
                "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", started),
                "healthEndpoint": f"http://localhost:{self.health_port}/healthz",
                "metricsEndpoint": f"http://localhost:{self.metrics_port}/metrics",
                "passthroughEndpoint": self.passthrough_endpoint,
            },
            separators=(",", ":"),
        )
