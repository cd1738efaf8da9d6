# SPDX-License-Identifier: Apache-2.0
"""A command ends when only the user can help, with the cause and a command; else it waits.

Every command here has a timeout of minutes: exit code 1 instead of 4 means that it did not wait
for that.
"""

import http.server
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.e2e.service.service_world import Done, World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

PROGRAMS = (
    *("dockerd", "containerd", "containerd-shim-runc-v2", "runc", "docker-init", "docker-proxy"),
    *("ip", "iptables", "iptables-save", "iptables-restore", "nsenter", "modprobe", "mount"),
)


@contextmanager
def short_world(script: Path, kubectl: Path, home: str = "h") -> Iterator[World]:
    root = Path(tempfile.mkdtemp(prefix="rddf", dir="/tmp"))
    for world in make_world(script, root / home, kubectl):
        try:
            yield world
        finally:
            world.try_rdd("svc", "delete", "--timeout=120s")
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def world(rdd_script: Path, kubectl: Path, qemu_path: Path) -> Iterator[World]:
    """Run a control plane in which machines can be created."""
    with short_world(rdd_script, kubectl) as found:
        found.rdd("service", "start")
        yield found


def create(world: World, name: str, image: str) -> Done:
    """Create a machine with an image; it is deleted afterwards."""
    path = world.home / f"{name}.yaml"
    path.write_text(f"vmType: qemu\nimages:\n- location: {image}\n")
    try:
        return world.try_rdd("limavm", "create", "--start", name, str(path))
    finally:
        world.rdd("limavm", "delete", name)


@contextmanager
def served(status: int) -> Iterator[tuple[str, list[str]]]:
    """Run a server that responds with a status; return its URL and its requests."""
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_error(status)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/x.img", requests
        finally:
            server.shutdown()
            thread.join()


def test_server_that_cannot_be_reached(world: World) -> None:
    done = create(world, "refused", "http://127.0.0.1:1/x.img")
    assert done.code == 1
    assert 'failed to download "http://127.0.0.1:1/x.img"' in done.last[1]


@pytest.mark.parametrize("image", ["/nowhere/x.img", "ftp://127.0.0.1/x.img"])
def test_image_that_does_not_exist(world: World, image: str) -> None:
    done = create(world, "missing", image)
    assert done.code == 1
    assert image in done.last[1]


def test_server_without_the_image(world: World) -> None:
    with served(404) as (url, _):
        done = create(world, "absent", url)
    assert done.code == 1
    assert "the server answered 404" in done.last[1]


def test_failing_server_is_retried(world: World) -> None:
    with served(503) as (url, requests):
        path = world.home / "busy.yaml"
        path.write_text(f"vmType: qemu\nimages:\n- location: {url}\n")
        program = world.begin("limavm", "create", "--start", "busy", str(path))
        world.until(lambda: len(requests) > 2)
        assert program.poll() is None
        world.rdd("limavm", "delete", "busy")
        assert "was deleted while waiting" in world.end(program).last[1]


def test_retry_of_a_command_tries_again_at_once(world: World) -> None:
    path = world.home / "again.yaml"
    image = world.home / "again.img"
    path.write_text(f"vmType: qemu\nimages:\n- location: {image}\n")
    world.rdd("limavm", "create", "again", str(path))
    for _ in range(2):
        done = world.try_rdd("limavm", "start", "again", "--timeout=100s")
        assert (done.code, str(image) in done.last[1]) == (1, True)
    world.rdd("limavm", "stop", "again", "--wait=false")
    image.write_bytes(b"not a disk")
    world.kubectl("annotate", "limavm", "again", "lima.rancherdesktop.io/retryRequested=now")
    world.kubectl("wait", "--for=condition=Created", "limavm/again", "--timeout=100s")
    world.rdd("limavm", "delete", "again")


def test_app_without_network(rdd_script: Path, kubectl: Path, qemu_path: Path) -> None:
    with short_world(rdd_script, kubectl) as world:
        proxy = "http://127.0.0.1:1"
        world.variables.update(http_proxy=proxy, https_proxy=proxy)
        done = world.try_rdd("set", "running=true", "virtualMachine.type=qemu", "--timeout=300s")
        assert done.code == 1
        assert "failed to download" in done.last[1]
        assert done.last[1].endswith("next step: rdd start")
        status = world.rdd("status", "-o", "json").json()
        assert [p["nextStep"] for p in status["problems"] if p["name"] == "app"] == ["rdd start"]
        assert world.try_rdd("start", "--timeout=300s").code == 1  # tried again, at once


def test_auto_reports_what_it_passes_over_before_it_uses_a_slower_driver(
    rdd_script: Path, kubectl: Path, qemu_path: Path
) -> None:
    with short_world(rdd_script, kubectl) as world:
        path = world.home / "bin"
        path.mkdir()
        for name in ("qemu-img", "ssh", "ssh-keygen", qemu_path.name):
            (path / name).symlink_to(shutil.which(name) or qemu_path)
        proxy = "http://127.0.0.1:1"
        world.variables.update(PATH=str(path), http_proxy=proxy, https_proxy=proxy)
        done = world.try_rdd("start", "--timeout=300s", RDD_LOG_LEVEL="warn")
        assert done.code == 1
        assert "failed to download" in done.last[1]
        passed = [text for text in done.messages if "auto uses qemu, not" in text]
        assert [text.split(" not ")[1].split(":")[0] for text in passed] == ["lima", "host"]
        assert "to change that: apt-get install" in passed[1]
        assert done.messages.index(passed[1]) < len(done.messages) - 1


def test_download_is_announced_with_its_size_and_reason(world: World) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(300 << 20))
            self.end_headers()
            self.wfile.write(bytes(1 << 20))

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        image = f"http://127.0.0.1:{server.server_port}/big.qcow2"
        path = world.home / "big.yaml"
        path.write_text(f"vmType: qemu\nimages:\n- location: {image}\n")
        words = ("limavm", "create", "--start", "--timeout=5s", "big", str(path))
        done = world.try_rdd(*words, RDD_LOG_LEVEL="warn")
        announced = [text for text in done.messages if text.startswith("Downloading big.qcow2")]
        assert len(announced) == 1
        assert "of 300.0 MiB)" in announced[0]
        assert announced[0].endswith("the image of the new virtual machine")
    finally:
        world.rdd("limavm", "delete", "big")
        server.shutdown()
        server.server_close()


@pytest.fixture
def engine(real_part: Callable[[str], Path]) -> None:
    if os.geteuid() != 0:
        pytest.skip("an engine without root needs /dev/net/tun, which few machines open")
    for name in ("dockerd", "iptables", "ip"):
        real_part(name)


def test_home_with_a_long_path(rdd_script: Path, kubectl: Path, engine: None) -> None:
    with short_world(rdd_script, kubectl, "h" * 100) as world:
        done = world.try_rdd("start", "--timeout=300s")
        assert done.code == 1
        assert "use a shorter name or a shorter home directory" in done.last[1]


def test_program_that_was_uninstalled(rdd_script: Path, kubectl: Path, engine: None) -> None:
    with short_world(rdd_script, kubectl) as world:
        path = world.home / "bin"
        path.mkdir()
        for name in PROGRAMS:
            found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
            if found:
                (path / name).symlink_to(found)
        world.variables["PATH"] = str(path)
        world.rdd("start")
        world.rdd("stop")
        containerd = (path / "containerd").readlink()
        (path / "containerd").unlink()
        done = world.try_rdd("start", "--timeout=300s")
        assert done.code == 1
        assert "containerd is not installed" in done.last[1]
        assert "apt-get install -y --no-install-recommends containerd" in done.last[1]
        (path / "containerd").symlink_to(containerd)
        world.rdd("start")


@pytest.mark.parametrize(
    ("options", "text"),
    [("size=16k", "No space left on device"), ("ro", "Read-only file system")],
)
def test_disk_that_is_full_or_read_only(
    rdd_script: Path, kubectl: Path, engine: None, options: str, text: str
) -> None:
    with short_world(rdd_script, kubectl) as world:
        world.rdd("service", "start")
        home = world.instance.lima_home
        home.mkdir(parents=True, exist_ok=True)
        run_program(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(home)], check=True)
        try:
            if "size" in options:
                with pytest.raises(OSError, match="No space"):
                    (home / "_filler").write_bytes(bytes(1 << 20))
            done = world.try_rdd("start", "--timeout=300s")
            assert done.code == 1
            assert text in done.last[1]
            assert "next step: " in done.last[1]
        finally:
            run_program(["umount", "--lazy", str(home)], check=True)
        world.rdd("start")
