# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes API server for tests.

`Server` runs in the event loop of the test, without a socket. `LiveServer` runs
in its own thread on a port of the loopback interface, with TLS and a
kubeconfig, for clients that need a URL. Both are the server of the daemon on a
store in memory, not a fake. The pytest fixtures are in `rdd.testing.plugin`;
docs/testing.md describes their use.

The names below are imported on first use, because pytest loads the plugin into
every test run of every project that has rdd installed.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rdd.testing.clock import Clock
    from rdd.testing.faults import Fault, Faults
    from rdd.testing.live import LiveServer
    from rdd.testing.manifests import ManifestError
    from rdd.testing.server import Options, Server
    from rdd.testing.wire import Reply, WatchStream

__all__ = [
    "Clock",
    "Fault",
    "Faults",
    "LiveServer",
    "ManifestError",
    "Options",
    "Reply",
    "Server",
    "WatchStream",
]

_MODULES = {
    "Clock": "clock",
    "Fault": "faults",
    "Faults": "faults",
    "LiveServer": "live",
    "ManifestError": "manifests",
    "Options": "server",
    "Reply": "wire",
    "Server": "server",
    "WatchStream": "wire",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
