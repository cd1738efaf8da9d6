# SPDX-License-Identifier: Apache-2.0
"""The App in a real guest, with docker inside: folders and logs, as users see them.

All tests of this file share one App and run in order.
"""

import io
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.machine.host_world import IMAGE, image
from tests.e2e.service.service_world import World
from tests.e2e.service.service_world import world as make_world
from tests.programs import run_program

pytestmark = pytest.mark.timeout(400)
IN_ORDER = True
BUSYBOX = "/bin/busybox"
WATCHER = """
import ctypes, os, struct
libc = ctypes.CDLL(None)
descriptor = libc.inotify_init1(0)
libc.inotify_add_watch(descriptor, b"/w", 0xFFF)
while True:
    data, at = os.read(descriptor, 65536), 0
    while at < len(data):
        _, mask, _, length = struct.unpack_from("iIII", data, at)
        print(hex(mask), data[at + 16 : at + 16 + length].rstrip(bytes(1)).decode())
        at += 16 + length
"""


@pytest.fixture(scope="module")
def world(
    rdd_script: Path,
    kubectl: Path,
    guests: Path,
    guest_cache: Path,
    qemu_path: Path,
    real_part: Callable[[str], Path],
) -> Iterator[World]:
    real_part("docker")
    home = Path(tempfile.mkdtemp(prefix="rdd", dir="/tmp"))
    for made in make_world(rdd_script, home / "h", kubectl):
        guest = str(guests / "debian")
        made.variables |= {"RDD_GUEST_IMAGE": guest, "RDD_CACHE_DIR": str(guest_cache)}
        machine = ("type=qemu", "memory=2Gi", "cpus=2", "disk=20Gi")
        try:
            made.rdd("set", "running=true", *(f"virtualMachine.{each}" for each in machine))
            docker(made, "import", "-", IMAGE, text=image())
            yield made
        finally:
            made.try_rdd("svc", "delete", "--no-trash")
    shutil.rmtree(home, ignore_errors=True)


def docker(world: World, *words: str, text: bytes | None = None) -> str:
    command = ["docker", "--context", world.instance.name, *words]
    done = run_program(command, env=world.environment(), input=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def links(*names: str) -> bytes:
    """Return a tar archive of links to directories below /usr."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            tar.addfile(link)
    return buffer.getvalue()


def mounts_check(world: World) -> dict[str, Any]:
    found = json.loads(world.try_rdd("doctor", "-o", "json").out)
    checks = found["checks"] if isinstance(found, dict) else found
    check: dict[str, Any] = next(check for check in checks if check["name"] == "mounts")
    return check


def diagnostic(world: World) -> str:
    """Return the reason in the Diagnostic object."""
    path = "jsonpath={.status.conditions[?(@.type=='Healthy')].reason}"
    return world.kubectl("get", "diagnostic", "mounts", "-o", path)


def test_folder_that_is_not_shared_is_a_warning(world: World) -> None:
    shared = world.home / "project"
    shared.mkdir()
    outside = tempfile.mkdtemp(prefix="outside", dir="/tmp")
    try:
        run = ("run", "-d", "--name")
        docker(world, *run, "inside", "-v", f"{shared}:/w", IMAGE, BUSYBOX, "sleep", "10000")
        assert mounts_check(world)["healthy"] == "True"
        docker(world, *run, "outside", "-v", f"{outside}:/w", IMAGE, BUSYBOX, "sleep", "10000")
        found = mounts_check(world)
        assert (found["healthy"], found["reason"]) == ("False", "NotShared")
        assert found["evidence"][0] == f"container outside: {outside}"
        assert "not of this host" in world.try_rdd("status").out
        world.until(lambda: diagnostic(world) == "NotShared")
        docker(world, "rm", "-f", "outside")
        assert mounts_check(world)["healthy"] == "True"
        world.until(lambda: diagnostic(world) == "Shared")
    finally:
        Path(outside).rmdir()


def test_logs_of_containers_are_bounded(world: World) -> None:
    found = json.loads(docker(world, "inspect", "-f", "{{json .HostConfig.LogConfig}}", "inside"))
    assert found == {"Type": "json-file", "Config": {"max-size": "20m", "max-file": "5"}}
    shown = world.rdd("get", "containerEngine.logs", "-o", "json").json()
    assert {each["property"].rpartition(".")[2]: each["default"] for each in shown} == {
        "maxSize": "20m",
        "maxFiles": 5,
    }


def test_changes_of_shared_files_reach_containers(world: World) -> None:
    file = world.home / "project" / "notes with a space.txt"
    # A container with the programs of the guest; its busybox has no inotifyd.
    docker(world, "import", "-", "programs", text=links("bin", "lib", "lib64"))
    run = ("run", "-d", "--name", "watcher", "-v", f"{file.parent}:/w", "-v", "/usr:/usr:ro")
    docker(world, *run, "programs", "/bin/python3", "-uc", WATCHER)

    def events() -> str:
        return docker(world, "logs", "watcher")

    def is_seen() -> bool:
        file.write_text(f"change {time.monotonic()}\n")
        return f"0x2 {file.name}" in events()

    world.until(is_seen)  # the first one may come before the watches do
    changed_ns = file.stat().st_mtime_ns
    new = file.parent / "new" / "inside"
    new.parent.mkdir()
    new.write_text("1")
    world.until(lambda: "new" in events())
    new.unlink()
    new.parent.rmdir()
    assert file.stat().st_mtime_ns == changed_ns
    docker(world, "rm", "-f", "watcher")
