# SPDX-License-Identifier: Apache-2.0
"""A started App with a real engine on this machine, and windows of the dashboard."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controllers.containers.engine_parts import archive
from tests.dashboard.chromium import Chromium, Tab
from tests.e2e.service.service_world import World, own_suffix
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

IMAGE = "busybox:latest"
WAITING = "trap 'exit 0' TERM; sleep 100000 & wait"
"""A program that ends at once when it is stopped."""


@dataclass
class Desktop:
    """The daemon, the engine and how to open a window."""

    service: World
    docker_path: Path

    def docker(self, *words: str) -> str:
        """Run docker against the engine; it must succeed."""
        socket = self.service.instance.docker_socket
        done = run_program(
            [self.docker_path, "-H", f"unix://{socket}", *words],
            env={"HOME": str(self.service.home), "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def run(self, name: str, *flags: str, command: str = WAITING) -> str:
        """Run a container and return its ID."""
        return self.docker("run", "-d", "--name", name, *flags, IMAGE, "sh", "-c", command)

    def remove_all(self) -> None:
        """Remove all containers."""
        ids = self.docker("ps", "-aq").split()
        if ids:
            self.docker("rm", "-f", "-v", *ids)

    def link(self, *flags: str) -> str:
        """Return a login link."""
        return self.service.rdd("dashboard", "--print-url", *flags).out.strip()

    def window(self, browser: Chromium, *flags: str, context: str | None = None) -> Tab:
        """Open a window that is logged in and connected."""
        tab = browser.tab(context)
        tab.open(self.link(*flags))
        self.connected(tab)
        return tab

    def connected(self, tab: Tab) -> None:
        """Wait until the page is connected and has its list of screens."""
        tab.until("document.querySelector('.status .dot.good') !== null")
        tab.until("document.querySelectorAll('nav.side a').length > 5")

    def objects(self, resource: str) -> list[dict[str, Any]]:
        """Return the objects of a resource in all namespaces."""
        found: list[dict[str, Any]] = json.loads(
            self.service.kubectl("get", resource, "-A", "-o", "json")
        )["items"]
        return found


@contextmanager
def desktop(
    script: Path, kubectl: Path, docker: Path, prepare: Callable[[World], None] | None = None
) -> Iterator[Desktop]:
    """Start rdd with the engine on this machine, in a home whose sockets have short paths.

    `prepare` adds variables and files before the daemon starts.
    """
    home = Path(tempfile.mkdtemp(prefix="rdd", dir="/tmp"))
    try:
        for service in make_world(script, home / "h", kubectl, suffix=own_suffix()):
            service.variables["RDD_VM_TYPE"] = "host"
            if prepare is not None:
                prepare(service)
            made = Desktop(service, docker)
            try:
                service.rdd("start")
                image = home / "busybox.tar"
                image.write_bytes(archive({"www/index.html": "hello\n"}))
                made.docker("import", str(image), IMAGE)
                yield made
            finally:
                service.try_rdd("service", "delete")
    finally:
        shutil.rmtree(home, ignore_errors=True)
