# SPDX-License-Identifier: Apache-2.0
"""Duration of the steps of a start.

    python -m bench.startsplit HOME

Starts the control plane once in this process, with timers around its steps, and prints
milliseconds per step as JSON. It is a separate process, because the measurement includes the
first import of every module.
"""

import sys
import time

_started = time.perf_counter()


import functools  # noqa: E402
import json  # noqa: E402
from collections.abc import Awaitable, Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402


class Stopwatch:
    """Replaces functions by timed wrappers; inner times are subtracted from outer ones."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self._open: list[float] = []

    def _enter(self) -> float:
        self._open.append(0.0)
        return time.perf_counter()

    def _leave(self, step: str, began: float) -> None:
        took = time.perf_counter() - began
        own = took - self._open.pop()
        if self._open:
            self._open[-1] += took
        self.ms[step] = self.ms.get(step, 0.0) + own * 1000

    def sync(self, owner: Any, name: str, step: str) -> None:
        """Wrap a function."""
        inner: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            began = self._enter()
            try:
                return inner(*args, **kwargs)
            finally:
                self._leave(step, began)

        setattr(owner, name, timed)

    def asynchronous(self, owner: Any, name: str, step: str) -> None:
        """Wrap a coroutine function; no other task may run meanwhile, which holds at start."""
        inner: Callable[..., Awaitable[Any]] = getattr(owner, name)

        async def timed(*args: Any, **kwargs: Any) -> Any:
            began = self._enter()
            try:
                return await inner(*args, **kwargs)
            finally:
                self._leave(step, began)

        setattr(owner, name, timed)


def main() -> int:
    from rdd.apiserver import bootstrap, server
    from rdd.apiserver.auth import certificates
    from rdd.apiserver.crd import lifecycle as crds
    from rdd.apiserver.http import listener as http
    from rdd.apiserver.state import cache
    from rdd.daemon import control_plane, loop, stages
    from rdd.daemon import options as daemon_options
    from rdd.instance import Instance
    from rdd.store.sqlite.store import SqliteStore

    imported = time.perf_counter()
    home = Path(sys.argv[1])
    watch = Stopwatch()
    watch.asynchronous(SqliteStore, "open", "open the store")
    watch.sync(certificates, "ensure_serving", "certificates and keys")
    watch.sync(certificates, "ensure_signing_key", "certificates and keys")
    watch.asynchronous(cache.ObjectCache, "load", "read the objects")
    watch.sync(server, "_make_registry", "kinds and schemas")
    watch.sync(crds.CustomResources, "load", "custom resources")
    watch.asynchronous(bootstrap, "bootstrap", "roles and namespaces")
    watch.asynchronous(control_plane, "open_server", "rest of the server")
    watch.asynchronous(http.HttpServer, "listen", "socket")

    async def start() -> float:
        instance = Instance("2", home, "linux")
        options = daemon_options.ServeOptions(secure_port=0)
        async with stages.control_plane(instance, options):
            return time.perf_counter()

    with loop.runner() as runner:
        ready = runner.run(start())
    found = {"imports": (imported - _started) * 1000, **watch.ms}
    found["other"] = (ready - _started) * 1000 - sum(found.values())
    print(json.dumps({step: round(ms, 1) for step, ms in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
