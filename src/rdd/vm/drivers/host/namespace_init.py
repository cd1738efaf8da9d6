# SPDX-License-Identifier: Apache-2.0
"""Process 1 of an engine's namespaces: starts the services, reaps zombies, ends with them.

A program of its own, executed by `enter.py`; small because it stays in memory. It starts the
services in order. When one ends by itself, it writes its name and exit status to a file and
ends, and the kernel kills everything else. On SIGTERM it stops the services in reverse order,
each after the previous one has ended, and then ends, too.
"""

import marshal
import os
import signal
import sys
from typing import Any


class ServiceSupervisor:
    def __init__(self, services: list[dict[str, Any]], ended: str) -> None:
        self._services = services
        self._ended = ended
        self._running: dict[int, str] = {}
        self._is_stopping = False

    def run(self) -> int:
        """Start all services and wait for their end; return the exit code."""
        signal.signal(signal.SIGTERM, self._on_stop)
        for service in self._services:
            self._running[spawn(service)] = service["name"]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        while self._running:
            pid, status = os.wait()
            name = self._running.pop(pid, "")
            if not name:
                continue  # an orphaned process of a container
            if not self._is_stopping:
                self._record(name, status)
                return 1
            self._stop_last()
        return 0

    def _on_stop(self, *_: object) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._stop_last()

    def _stop_last(self) -> None:
        if self._running:
            os.kill(next(reversed(self._running)), signal.SIGTERM)

    def _record(self, name: str, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        how = f"exit status {code}" if code >= 0 else f"signal {-code}"
        with open(self._ended, "w") as file:  # noqa: PTH123 - this process imports next to nothing
            file.write(f"{name} {how}\n")


def spawn(service: dict[str, Any]) -> int:
    """Start a program with its output in a log file; return its pid in this namespace."""
    appending = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, service["log"], appending, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    stop = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
    return os.posix_spawn(
        service["argv"][0],
        service["argv"],
        service["environment"],
        file_actions=actions,
        setsid=True,
        setsigmask=(),
        setsigdef=(*stop, signal.SIGPIPE, signal.SIGXFSZ),
    )


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:  # noqa: PTH123
        services, ended = marshal.load(file)
    sys.exit(ServiceSupervisor(services, ended).run())
