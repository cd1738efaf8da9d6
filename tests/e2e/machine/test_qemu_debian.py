# SPDX-License-Identifier: Apache-2.0
"""A Debian guest with a container engine: sockets, published ports, mounts, suspend, trim.

All tests of this file share one machine and run in order.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.e2e.machine.qemu_world import DEBIAN, World, eventually, world

from rdd.vm.disk_report import FULL
from rdd.vm.idle.docker_paths import own_socket
from rdd.vm.idle.report import IdleReport
from rdd.vm.idle.settings import IdleSettings
from rdd.vm.machines import Phase

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(240)]

IN_ORDER = True  # the last test changes the machine
SUSPEND = IdleSettings(action="suspend", after_s=1, cpu_percent=100)

FORWARDS = """portForwards:
- guestSocket: /var/run/docker.sock
  hostSocket: docker.sock
"""
TEMPLATE = (
    DEBIAN
    + """
mountType: reverse-sshfs
mounts:
- location: "{{.Home}}/shared"
  mountPoint: /shared
  writable: true
"""
    + FORWARDS
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def debian(guests: Path, qemu_path: Path, guest_cache: Path) -> AsyncIterator[World]:
    async with world(guests / "debian", guest_cache) as made:
        await made.create("vm", TEMPLATE)
        seen = await made.start("vm")
        assert not seen.degraded, seen.errors
        yield made


def idle(debian: World) -> IdleReport:
    return debian.machines.phase("vm").idle or IdleReport()


async def ask_engine(debian: World, path: str) -> bytes:
    socket = debian.home.directory("vm").sockets / "docker.sock"
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n\r\n")
    assert b" 2" in status.splitlines()[0], answer
    return rest


async def until_engine_answers(debian: World) -> None:
    for _ in range(300):
        try:
            if (await ask_engine(debian, "/_ping")).endswith(b"OK"):
                return
        except (OSError, AssertionError):
            pass
        await asyncio.sleep(0.2)
    raise AssertionError(debian.logs("vm"))


async def import_image(debian: World) -> None:
    """Build an image without a registry: one static program."""
    await until_engine_answers(debian)
    await debian.shell(
        "vm", "sh", "-ec", "tar -C /usr -c bin/busybox | docker import - box >/dev/null"
    )


async def test_engine_responds_at_its_forwarded_socket(debian: World) -> None:
    await until_engine_answers(debian)
    version = json.loads(await ask_engine(debian, "/version"))
    assert version["Os"] == "linux"
    mode = (debian.home.directory("vm").sockets / "docker.sock").stat().st_mode
    assert mode & 0o077 == 0


async def test_guest_reads_and_writes_a_host_directory(debian: World) -> None:
    shared = debian.user_home / "shared"
    (shared / "from-here").write_text("hello")
    assert await debian.shell("vm", "cat", "/shared/from-here") == "hello"
    await debian.shell("vm", "sh", "-c", "echo there >/shared/from-there")
    assert (shared / "from-there").read_text() == "there\n"


async def test_published_port_of_a_container_is_reachable(debian: World) -> None:
    await import_image(debian)
    web = "echo served >/index.html; exec /bin/busybox httpd -f -p 80 -h /"
    container = await debian.shell(
        "vm", "docker", "run", "-d", "-p", "18080:80", "box", "/bin/busybox", "sh", "-c", web
    )
    await debian.until("vm", lambda seen: any("18080" in one.host_address for one in seen.forwards))
    reader, writer = await asyncio.open_connection("127.0.0.1", 18080)
    writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"served\n")
    writer.close()
    running = json.loads(await ask_engine(debian, "/containers/json"))
    assert container in [one["Id"] for one in running]
    await debian.shell("vm", "docker", "rm", "-f", container)


async def test_deleted_files_give_their_space_back(debian: World) -> None:
    disk = debian.home.directory("vm").path / "disk"

    def taken_mb() -> int:
        return disk.stat().st_blocks * 512 >> 20

    await debian.shell("vm", "sudo", "sh", "-c", "head -c 200M /dev/urandom >/big; sync")
    full = taken_mb()
    await debian.shell("vm", "sudo", "sh", "-c", "rm /big; sync")
    await eventually(lambda: taken_mb() < full - 150)
    seen = await debian.until("vm", lambda seen: bool(seen.disk and seen.disk.trimmed_at))
    assert seen.disk is not None
    assert seen.disk.problem == ""


async def test_full_disk_and_missing_discard_are_reported(debian: World) -> None:
    fill = "fallocate -l $(($(df -k --output=avail / | tail -1) - 40000))K /full"
    await debian.shell("vm", "sudo", "sh", "-c", fill)
    seen = await debian.until("vm", lambda seen: bool(seen.disk and seen.disk.pressure == FULL))
    assert seen.disk is not None
    assert seen.disk.point == "/"
    limit = "/sys/block/vda/queue/discard_max_bytes"
    await debian.shell("vm", "sudo", "sh", "-c", f"echo 0 >{limit}; rm /full; sync")
    seen = await debian.until("vm", lambda seen: bool(seen.disk and seen.disk.problem))
    assert seen.disk is not None
    assert "fstrim failed: fstrim: /: the discard operation is not supported" in seen.disk.problem
    assert seen.disk.pressure == ""


async def test_root_file_system_has_the_size_of_the_disk(debian: World) -> None:
    size = int(await debian.shell("vm", "sh", "-c", "df -B1M --output=size / | tail -1"))
    assert size > 3500


async def test_suspended_machine_keeps_its_containers_and_its_socket(debian: World) -> None:
    (debian.user_home / "shared" / "from-here").write_text("hello")
    boot = await debian.shell("vm", "cat", "/proc/sys/kernel/random/boot_id")
    await import_image(debian)
    sleeps = ("/bin/busybox", "sleep", "100000")
    container = await debian.shell("vm", "docker", "run", "-d", "box", *sleeps)
    seen = await debian.stop("vm", suspend=True)
    assert (seen.phase, seen.stop_error) == (Phase.STOPPED, "")
    socket = debian.home.directory("vm").sockets / "docker.sock"
    assert not socket.exists()
    seen = await debian.start("vm")
    assert not seen.degraded, seen.errors
    await until_engine_answers(debian)
    running = json.loads(await ask_engine(debian, "/containers/json"))
    assert container in [one["Id"] for one in running]
    assert await debian.shell("vm", "cat", "/proc/sys/kernel/random/boot_id") == boot
    assert (await debian.shell("vm", "cat", "/shared/from-here")) == "hello"


async def test_idle_guest_is_suspended_with_its_engine(debian: World) -> None:
    # Not with mounts, which containers would lose.
    await debian.machines.set_idle("vm", SUSPEND)
    await eventually(lambda: bool(idle(debian).paused_since))
    assert "its mounts would be disconnected" in idle(debian).problem
    await debian.stop("vm")
    debian.machines.write_template("vm", f"{DEBIAN}{FORWARDS}")
    await debian.machines.set_idle("vm", IdleSettings())
    await debian.start("vm")
    await until_engine_answers(debian)

    containers = await ask_engine(debian, "/containers/json")
    boot = await debian.shell("vm", "cat", "/proc/sys/kernel/random/boot_id")
    await debian.machines.set_idle("vm", SUSPEND)
    await eventually(lambda: idle(debian).is_suspended)

    # What rdd itself asks waits, and wakes nothing.
    own = own_socket(debian.home.directory("vm").sockets / "docker.sock")
    reader, writer = await asyncio.open_unix_connection(own)
    writer.write(b"GET /_ping HTTP/1.0\r\n\r\n")
    await writer.drain()
    assert idle(debian).is_suspended
    found = json.loads(await ask_engine(debian, "/containers/json"))
    assert [one["Id"] for one in found] == [one["Id"] for one in json.loads(containers)]
    assert (await reader.read()).endswith(b"OK")
    writer.close()
    assert "Docker socket" in idle(debian).cause
    await debian.machines.set_idle("vm", IdleSettings())
    assert await debian.shell("vm", "cat", "/proc/sys/kernel/random/boot_id") == boot


@pytest.mark.skipif(os.geteuid() != 0, reason="virtiofsd needs root")
async def test_larger_disk_and_virtiofs_without_suspension(debian: World) -> None:
    stopped = await debian.stop("vm")
    assert (stopped.phase, stopped.reason) == (Phase.STOPPED, "")
    other = TEMPLATE.replace("mountType: reverse-sshfs\n", "").replace("disk: 4GiB", "disk: 6GiB")
    debian.machines.write_template("vm", other)
    seen = await debian.start("vm")
    assert not seen.degraded, seen.errors
    size = int(await debian.shell("vm", "sh", "-c", "df -B1M --output=size / | tail -1"))
    assert size > 5500
    assert "virtiofs" in await debian.shell("vm", "grep", "/shared", "/proc/mounts")
    assert await debian.shell("vm", "cat", "/shared/from-here") == "hello"
    await debian.shell("vm", "sudo", "sh", "-c", "echo again >/shared/from-there")
    assert (debian.user_home / "shared" / "from-there").read_text() == "again\n"
    seen = await debian.stop("vm", suspend=True)
    assert seen.phase is Phase.RUNNING
    assert "the state of its virtiofs mounts cannot be saved" in seen.stop_error
    assert await debian.shell("vm", "echo", "still here") == "still here"

    # An idle one is paused instead.
    await debian.machines.set_idle("vm", SUSPEND)
    await eventually(lambda: bool(idle(debian).paused_since))
    assert not idle(debian).is_suspended
    assert "the state of its virtiofs mounts cannot be saved" in idle(debian).problem
