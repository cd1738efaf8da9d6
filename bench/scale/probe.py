# SPDX-License-Identifier: Apache-2.0
"""How long a server holds its loop, seen from outside: the gap of a 5 ms probe of /livez.

The probe is a process of its own, because the client of the measurement is busy itself. It
sends a request every 5 ms on one connection and notes by how much the longest response
exceeded that. On a machine that does other things the probe and the server wait for a core,
too; so each measurement is compared with the gap of an idle server just before, and the CPU
time that the server used inside the longest gap is noted with it.

    python -m bench.scale.probe HOST PORT PID     prints a line per line read from stdin
"""

import select
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from bench.server import Process

PERIOD_S = 0.005
REQUEST = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass(slots=True)
class Gap:
    """The longest gap of a period."""

    gap_ms: float = 0.0
    cpu_ms: float = 0.0
    """CPU time of the server's process during that gap: an upper bound of what held the loop."""
    probes: int = 0


class Probe:
    """A running probe."""

    def __init__(self, url: str, pid: int) -> None:
        parts = urlsplit(url)
        command = [sys.executable, "-m", "bench.scale.probe", str(parts.hostname)]
        self._child = subprocess.Popen(
            [*command, str(parts.port), str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def reset(self) -> Gap:
        """Return the longest gap since the last call."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write("\n")
        self._child.stdin.flush()
        gap, cpu, count = self._child.stdout.readline().split()
        return Gap(float(gap), float(cpu), int(count))

    @contextmanager
    def watch(self) -> Iterator[Gap]:
        """Measure the longest gap during a block."""
        self.reset()
        found = Gap()
        yield found
        last = self.reset()
        found.gap_ms, found.cpu_ms, found.probes = last.gap_ms, last.cpu_ms, last.probes

    def close(self) -> None:
        """End the probe."""
        self._child.kill()
        self._child.communicate()


def main() -> int:
    host, port, pid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    server = Process(pid)
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    longest = Gap()
    with tls.wrap_socket(socket.create_connection((host, port))) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            began, cpu = time.perf_counter(), server.cpu_s()
            stream.sendall(REQUEST)
            if not stream.recv(65536):
                return 1
            took = (time.perf_counter() - began) * 1000
            longest.probes += 1
            if took > longest.gap_ms:
                longest.gap_ms = took
                longest.cpu_ms = (server.cpu_s() - cpu) * 1000
            if select.select([sys.stdin], [], [], 0)[0]:
                if not sys.stdin.readline():
                    return 0
                print(f"{longest.gap_ms:.2f} {longest.cpu_ms:.2f} {longest.probes}", flush=True)
                longest = Gap()
            time.sleep(max(0.0, PERIOD_S - (time.perf_counter() - began)))


if __name__ == "__main__":
    sys.exit(main())
