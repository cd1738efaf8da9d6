# SPDX-License-Identifier: Apache-2.0
"""Kubernetes on the type host: k3s is fetched with consent, before anything restarts.

The engine is real, k3s a stand-in (tests/k3s.py) that a local server offers as a mirror.
"""

import contextlib
import hashlib
import http.server
import os
import pty
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.app.test_app_host import (  # noqa: F401  # fixtures
    RELEASE,
    ROOT,
    app,
    conditions,
    docker,
    run_docker,
    world,
)
from tests.e2e.service.service_world import World
from tests.programs import start_program

from rdd.vm.drivers.host.k3s import cached_k3s

IN_ORDER = True
PROGRAM = (
    f'#!/bin/sh\nexec env PYTHONPATH={ROOT}:{ROOT}/src {sys.executable} -m tests.k3s "$@"\n'
).encode()
KUBERNETES = ("kubernetes.enabled=true", "kubernetes.version=1.33.7")


class Mirror:
    """A server with the files of publishers below their host names."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.url = ""

    def publish(self, program: bytes, listed: bytes) -> None:
        base = f"/github.com/k3s-io/k3s/releases/download/{RELEASE.replace('+', '%2B')}"
        digest = hashlib.sha256(listed).hexdigest()
        for name in ("k3s", "k3s-arm64"):
            self.files[f"{base}/{name}"] = program
        for suffix in ("amd64", "arm64"):
            lines = f"{digest}  k3s\n{digest}  k3s-arm64\n"
            self.files[f"{base}/sha256sum-{suffix}.txt"] = lines.encode()


@contextlib.contextmanager
def mirror() -> Iterator[Mirror]:
    found = Mirror()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.requests.append(f"{self.command} {self.path}")
            content = found.files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content or b"")

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def source() -> Iterator[Mirror]:
    with mirror() as found:
        yield found


def engine_start(world: World) -> int:  # noqa: F811
    count: int = app(world)["status"].get("restartCount", 0)
    text = world.kubectl("get", "limavm", "rd", "-o", "jsonpath={.status.restartCount}")
    return count + int(text)


def test_without_consent_nothing_is_fetched_and_the_engine_goes_on(
    world: World,  # noqa: F811
    docker: Path,  # noqa: F811
    source: Mirror,
) -> None:
    world.rdd("set", "running=true", "kubernetes.enabled=false", f"downloads.mirror={source.url}")
    source.requests.clear()
    before = engine_start(world)
    done = world.try_rdd("set", *KUBERNETES)
    assert done.code == 1
    assert f"k3s {RELEASE} is not installed; to change that: rdd set --yes" in done.last[1]
    assert conditions(world)["Settled"] == ("False", "NotInstalled")
    run_docker(world, docker, "ps")
    assert engine_start(world) == before
    assert source.requests == []


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        pytest.param(b"", "NotFound", id="missing"),
        pytest.param(b"x", "ChecksumMismatch", id="wrong"),
    ],
)
def test_failure_leaves_the_engine_running_and_names_the_cause(
    world: World,  # noqa: F811
    docker: Path,  # noqa: F811
    source: Mirror,
    listed: bytes,
    reason: str,
) -> None:
    world.rdd("set", "kubernetes.enabled=false")
    world.kubectl("delete", "resources,checkouts", "--all", "-A")
    source.files.clear()
    if listed:
        source.publish(PROGRAM, listed)
    before = engine_start(world)
    done = world.try_rdd("set", "--yes", *KUBERNETES)
    assert done.code == 1
    assert app(world)["status"]["failure"]["reason"] == reason
    assert conditions(world)["Settled"] == ("False", "FetchFailed")
    run_docker(world, docker, "ps")
    assert engine_start(world) == before
    assert not cached_k3s(RELEASE, world.environment()).exists()


def test_program_is_fetched_verified_and_run(
    world: World,  # noqa: F811
    docker: Path,  # noqa: F811
    source: Mirror,
) -> None:
    world.rdd("set", "kubernetes.enabled=false")
    world.kubectl("delete", "resources,checkouts", "--all", "-A")
    source.publish(PROGRAM, PROGRAM)
    world.rdd("set", "--yes", *KUBERNETES)
    assert conditions(world)["KubernetesReady"] == ("True", "Ready")
    path = cached_k3s(RELEASE, world.environment())
    assert path.read_bytes() == PROGRAM
    assert os.access(path, os.X_OK)
    world.until(
        lambda: (
            "app.rancherdesktop.io/downloadsApproved"
            not in app(world)["metadata"].get("annotations", {})
        )
    )
    run_docker(world, docker, "ps")


def test_question_on_a_terminal_names_source_and_size(
    world: World,  # noqa: F811
    source: Mirror,
) -> None:
    world.rdd("set", "kubernetes.enabled=false")
    world.kubectl("delete", "resources,checkouts", "--all", "-A")
    cached_k3s(RELEASE, world.environment()).unlink()
    leader, follower = pty.openpty()
    command = [str(world.script), "set", *KUBERNETES]
    with start_program(
        command, env=world.environment(), stdin=follower, stdout=follower, stderr=follower
    ) as program:
        os.close(follower)
        shown = b""
        while b"Fetch it now? [y/N]" not in shown:
            shown += os.read(leader, 4096)
        assert f"/{RELEASE.replace('+', '%2B')}/k3s".encode() in shown
        assert f"({len(PROGRAM)} B)".encode() in shown
        os.write(leader, b"y\n")
        with contextlib.suppress(OSError):  # the end of the program closes the terminal
            while os.read(leader, 4096):
                pass
        assert program.wait() == 0
    os.close(leader)
    assert conditions(world)["KubernetesReady"] == ("True", "Ready")
