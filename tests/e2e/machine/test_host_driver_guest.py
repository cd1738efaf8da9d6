# SPDX-License-Identifier: Apache-2.0
"""CPUs and memory of the type `host` where control groups have version 2 only, and systemd.

Build machines have both versions and no systemd. So the host agent and its engine run in the
Debian guest, from its disk: as root, and as a user whose systemd delegates control groups.
"""

import io
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.e2e.machine.limits_inside import MEMORY
from tests.e2e.machine.qemu_world import DEBIAN, World, world

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

IN_ORDER = True  # they share a machine

TOP = Path(__file__).parents[3]
PACKAGES = "/usr/lib/python3/dist-packages"
RUN = ("env", "-C", "/", "python3", "-m", "tests.e2e.machine.limits_inside")
DELEGATE = """
set -e
systemctl unmask systemd-logind.service
useradd --create-home someone
modprobe tun
chmod 0666 /dev/net/tun
loginctl enable-linger someone
systemctl start "user@$(id -u someone).service"
"""


def sources() -> bytes:
    """Return an archive of what runs in the guest."""
    buffer = io.BytesIO()
    modules = ("programs", "e2e/machine/host_world", "e2e/machine/limits_inside")
    paths = {f"tests/{name}.py": TOP / "tests" / f"{name}.py" for name in modules}
    for path in (TOP / "src/rdd").rglob("*.py"):
        paths[str(path.relative_to(TOP / "src"))] = path
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as tar:
        for name, path in paths.items():
            tar.add(path, name)
    return buffer.getvalue()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def debian(guests: Path, qemu_path: Path, guest_cache: Path) -> AsyncIterator[World]:
    assert "rootlesskit=" in (guests / "packages").read_text(), "old guests: run make guest-image"
    async with world(guests / "debian", guest_cache) as made:
        await made.create("vm", DEBIAN)
        await made.start("vm")
        await made.shell("vm", "sudo", "systemctl", "stop", "docker.socket", "docker", "containerd")
        await made.shell("vm", "sudo", "tar", "-xz", "-C", PACKAGES, stdin=sources())
        yield made


def check(found: dict[str, Any], mode: str) -> None:
    assert found["limits"] == {"mode": mode, "cpus": 1, "memory": MEMORY}
    assert not found["degraded"]
    assert found["files"]["cpu.max"] == "100000 100000"
    assert found["files"]["memory.max"] == str(MEMORY)
    assert found["files"]["memory.swap.max"] == "0"
    assert found["memory"]["code"] == "137"
    assert found["memory"]["kills"] > 0
    assert found["inside"] == {"engine": True, "containers": [True, True], "agent": False}
    assert found["cpus"] <= 1.1
    assert found["throttled"] > 0
    assert (found["exit"], found["remains"]) == (0, False)


async def test_root_with_version_2_alone(debian: World) -> None:
    assert await debian.shell("vm", "stat", "-fc", "%T", "/sys/fs/cgroup") == "cgroup2fs"
    found = await debian.shell("vm", "sudo", *RUN, timeout_s=600)
    check(json.loads(found), "v2")


async def test_user_whose_systemd_delegates(debian: World) -> None:
    await debian.shell("vm", "sudo", "sh", "-c", DELEGATE)
    found = await debian.shell("vm", "sudo", "-iu", "someone", *RUN, timeout_s=600)
    check(json.loads(found), "v2-systemd")
