# SPDX-License-Identifier: Apache-2.0
"""The server under test: `rdd service serve` with a separate home directory.

A benchmark measures the program as users start it, in a separate process, over HTTPS, with a
real disk file. CPU time, memory and context switches are read by process id. By default it
runs no controllers of rdd, to compare only the API server; `bench.desktop` measures all.
"""

import base64
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

RDD = str(Path(sys.executable).with_name("rdd"))
READY_WITHIN_S = 300.0
POLL_S = 0.002


class ServerFailed(Exception):
    """The server did not start, or has exited."""


@dataclass(frozen=True, slots=True)
class Access:
    """Connection details of a running server."""

    url: str
    token: str
    tls: ssl.SSLContext


class Process:
    """Resource usage of a process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        # CPUCLOCK_SCHED of that process, as clock_getcpuclockid(3) computes it:
        # nanoseconds, where /proc/<pid>/stat counts in hundredths of a second.
        self._clock = (~pid << 3) | 2

    def cpu_s(self) -> float:
        """Return the CPU time of all threads."""
        return time.clock_gettime(self._clock)

    def rss_mib(self) -> float:
        """Return the resident memory."""
        return int(self._status("status")["VmRSS"].split()[0]) / 1024

    def switches(self) -> int:
        """Return the number of voluntary context switches of all threads."""
        found = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            found += int(self._status(f"task/{task.name}/status")["voluntary_ctxt_switches"])
        return found

    def _status(self, name: str) -> dict[str, str]:
        text = Path(f"/proc/{self.pid}/{name}").read_text()
        pairs = (line.partition(":") for line in text.splitlines())
        return {key: value.strip() for key, _, value in pairs}


class Server:
    """A running server with a home directory.

    `ready_s` is the time from starting the program to the first 200 of /readyz.
    """

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self.ready_s = 0.0
        self._arguments = arguments or ("--controllers=",)
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        port = _free_port()
        command = [RDD, "service", "serve", "--secure-port", str(port), *self._arguments]
        began = time.perf_counter()
        self._child = subprocess.Popen(command, env=self._environment(), stdin=subprocess.DEVNULL)
        try:
            self._wait_ready(port, began)
        except BaseException:
            self._stop()
            raise
        self.process = Process(self._child.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def access(self) -> Access:
        """Return the connection of the administrator, from the kubeconfig of the server."""
        printed = subprocess.run(
            [RDD, "service", "paths", "config"],
            env=self._environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        config: dict[str, Any] = yaml.safe_load(Path(printed.stdout.strip()).read_text())
        cluster = config["clusters"][0]["cluster"]
        current = next(c for c in config["contexts"] if c["name"] == config["current-context"])
        user = next(u for u in config["users"] if u["name"] == current["context"]["user"])
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
        return Access(cluster["server"], user["user"]["token"], tls)

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RDD_", "XDG_"))}
        return {**kept, "HOME": str(self.home)}

    def _wait_ready(self, port: int, began: float) -> None:
        assert self._child is not None
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = (
            False,
            ssl.CERT_NONE,
        )  # the certificate does not exist yet
        while not _is_ready(port, tls):
            if self._child.poll() is not None:
                raise ServerFailed(f"the server exited with {self._child.returncode}")
            if time.perf_counter() - began > READY_WITHIN_S:
                raise ServerFailed(f"the server is not ready after {READY_WITHIN_S:g} s")
            time.sleep(POLL_S)
        self.ready_s = time.perf_counter() - began

    def _stop(self) -> None:
        child = self._child
        if child is None or child.poll() is not None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


@contextmanager
def temporary_home() -> Iterator[Path]:
    """Create a home directory for one measurement, on the disk of temporary files."""
    with tempfile.TemporaryDirectory(prefix="rdd-bench-") as name:
        yield Path(name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_ready(port: int, tls: ssl.SSLContext) -> bool:
    # Cheaper than http.client: polling must cost little compared with the server.
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
            tls.wrap_socket(plain) as stream,
        ):
            stream.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return stream.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False
