# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of qemu machines, with a guest that boots in seconds."""

import asyncio
import json
import os
import shutil
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.e2e.machine.qemu_world import BOOT_S, SMALL, World, eventually, world
from tests.programs import run_program

from rdd.host.processes import is_alive, send_signal
from rdd.vm.drivers.qemu import disks
from rdd.vm.instance_dir import InstanceStatus
from rdd.vm.machines import Phase

PROVISION = """
param: {WHO: world}
env: {GREETING: good morning}
copyToHost:
- {guest: /etc/hello/there, host: "{{.Home}}/copied", deleteOnStop: true}
hostResolver:
  hosts: {registry.internal: host.lima.internal}
provision:
- mode: user
  script: |
    #!/bin/sh
    echo "user $(id -un) $PARAM_WHO" >>/tmp/order
- mode: system
  script: |
    #!/bin/sh
    mkdir -p /data && mount /dev/vda /data
    echo "system $(id -un) {{.Param.WHO}}" >>/tmp/order
    chmod 666 /tmp/order
- mode: boot
  script: echo "boot" >>/tmp/order
- mode: data
  path: /etc/hello/there
  content: "hello {{.Param.WHO}}"
  permissions: "640"
- mode: dependency
  script: echo "dependency" >>/tmp/order
probes:
- description: the file is there
  script: |
    #!/bin/sh
    test -e /etc/hello/there && test "$PARAM_WHO" = world
"""


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


async def boot_id(small: World, name: str) -> str:
    return await small.shell(name, "cat", "/proc/sys/kernel/random/boot_id")


async def test_machine_boots_keeps_its_disk_and_stops(small: World) -> None:
    directory = await small.create("vm", SMALL + PROVISION)
    seen = await small.start("vm")
    assert not seen.degraded, seen.errors
    assert directory.status() is InstanceStatus.RUNNING

    order = await small.shell("vm", "cat", "/tmp/order")
    assert order.splitlines() == ["boot", "dependency", "system root world", "user lima world"]
    assert await small.shell("vm", "sudo", "cat", "/etc/hello/there") == "hello world"
    assert await small.shell("vm", "stat", "-c", "%a", "/etc/hello/there") == "640"
    assert await small.shell("vm", "sh", "-c", "echo $GREETING") == "good morning"
    assert await small.shell("vm", "hostname") == "lima-vm"
    copied = small.user_home / "copied"
    assert copied.read_text() == "hello world"
    hosts = await small.shell("vm", "cat", "/etc/hosts")
    assert "192.168.5.2 registry.internal" in hosts
    assert await small.shell("vm", "cat", stdin=b"through\n") == "through"

    await small.shell("vm", "sudo", "sh", "-c", "echo kept >/data/file; sync")
    first = await boot_id(small, "vm")
    stopped = await small.stop("vm")
    assert (stopped.phase, stopped.reason) == (Phase.STOPPED, "")
    assert directory.status() is InstanceStatus.STOPPED
    assert not copied.exists()
    assert list(directory.path.glob("*.sock")) == []
    assert list(directory.path.glob("*.pid")) == []

    await small.start("vm")
    assert await boot_id(small, "vm") != first
    assert await small.shell("vm", "cat", "/data/file") == "kept"
    await small.machines.delete("vm", grace_s=0, keep_logs_in=None)
    assert not directory.exists()


async def test_port_is_forwarded_while_the_guest_listens(small: World) -> None:
    await small.create("vm", SMALL)
    await small.start("vm")
    await small.shell("vm", "sh", "-c", "echo hi >/tmp/index.html; httpd -p 127.0.0.1:8099 -h /tmp")

    def is_forwarded() -> bool:
        return any(
            one.type == "forwarding" and one.guest_address == "127.0.0.1:8099"
            for one in small.machines.phase("vm").forwards
        )

    await eventually(is_forwarded)
    reader, writer = await asyncio.open_connection("127.0.0.1", 8099)
    writer.write(b"GET /index.html HTTP/1.0\r\n\r\n")
    assert b"hi" in await reader.read()
    writer.close()
    await small.shell("vm", "killall", "httpd")
    await eventually(lambda: not is_forwarded())
    await eventually(lambda: not is_open(8099))


async def test_guest_that_hangs_is_reported_until_it_responds(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    qemu = directory.driver_process()
    assert qemu is not None
    send_signal(qemu, signal.SIGSTOP)
    try:
        await small.until("vm", lambda seen: [one.reason for one in seen.problems] == ["GuestHung"])
    finally:
        send_signal(qemu, signal.SIGCONT)
    await small.until("vm", lambda seen: not seen.degraded)


async def test_dead_agent_is_replaced_without_a_reboot(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.machines.start("vm")
    # During the boot, and again when it runs.
    await eventually(lambda: directory.driver_process() is not None)
    qemu = directory.driver_process()
    await small.kill(directory.agent())
    assert directory.driver_process() == qemu
    small.new_daemon()
    assert await small.machines.adopt("vm")
    await small.running("vm")
    boot = await boot_id(small, "vm")

    await small.shell("vm", "sh", "-c", "httpd -p 127.0.0.1:8098 -h /tmp")
    await small.until("vm", lambda seen: any("8098" in one.host_address for one in seen.forwards))
    await small.kill(directory.agent())
    small.new_daemon()
    assert await small.machines.adopt("vm")
    await small.running("vm")
    assert directory.driver_process() == qemu
    assert await boot_id(small, "vm") == boot
    await small.until("vm", lambda seen: any("8098" in one.host_address for one in seen.forwards))
    _, writer = await asyncio.open_connection("127.0.0.1", 8098)
    writer.close()


async def test_restarted_daemon_replaces_a_live_agent(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    qemu, agent, boot = directory.driver_process(), directory.agent(), await boot_id(small, "vm")
    await small.machines.close()
    small.new_daemon()
    assert await small.machines.adopt("vm")
    await small.running("vm")
    assert directory.driver_process() == qemu
    assert directory.agent() != agent
    assert await boot_id(small, "vm") == boot


async def test_killed_emulator_is_reported_and_leaves_nothing(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    await small.kill(directory.driver_process())
    seen = await small.until("vm", lambda seen: seen.phase is Phase.STOPPED)
    assert "qemu was killed by SIGKILL" in seen.reason
    assert directory.status() is InstanceStatus.STOPPED
    await small.start("vm")


async def test_emulator_killed_during_the_boot_can_be_restarted(
    small: World,
) -> None:
    directory = await small.create("vm", SMALL)
    await small.machines.start("vm")
    await eventually(lambda: directory.driver_process() is not None)
    await small.kill(directory.driver_process())
    seen = await small.until("vm", lambda seen: seen.phase is Phase.STOPPED)
    assert "qemu was killed by SIGKILL" in seen.reason
    assert directory.status() is InstanceStatus.STOPPED
    await small.start("vm")


@pytest.mark.parametrize("victim", ["agent", "emulator"])
async def test_process_killed_during_the_stop_leaves_nothing(small: World, victim: str) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    emulator = directory.driver_process()
    assert emulator is not None
    small.machines.stop("vm")
    await small.until("vm", lambda seen: seen.phase is Phase.STOPPING)
    await small.kill(directory.agent() if victim == "agent" else emulator)
    seen = await small.until("vm", lambda seen: seen.phase is Phase.STOPPED, timeout_s=120)
    assert not seen.crashed
    assert not is_alive(emulator)
    assert directory.status() is InstanceStatus.STOPPED


async def test_guest_shutdown_is_the_reported_reason(small: World) -> None:
    await small.create("vm", SMALL)
    await small.start("vm")
    await small.shell("vm", "sudo", "sh", "-c", "poweroff &")
    seen = await small.until("vm", lambda seen: seen.phase is Phase.STOPPED)
    assert "the guest has shut itself down" in seen.reason


async def test_lost_ssh_connection_is_restored_with_its_forwards(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    await small.shell("vm", "sh", "-c", "httpd -p 127.0.0.1:8097 -h /tmp")
    await small.until("vm", lambda seen: any("8097" in one.host_address for one in seen.forwards))
    await small.shell("vm", "sh", "-c", "sudo setsid sh -c 'sleep 1; killall dropbear' &")
    await eventually(lambda: "was lost" in directory.ha_stderr.read_text())

    def answers() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", 8097), 1) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return connection.recv(4) == b"HTTP"
        except OSError:
            return False

    await eventually(answers)


async def test_failing_script_degrades_the_machine_with_its_output(
    small: World,
) -> None:
    script = "#!/bin/sh\necho one thing\necho the disk is purple >&2\nexit 7\n"
    text = SMALL + "provision:\n" + f"- mode: system\n  script: {json.dumps(script)}\n"
    await small.create("vm", text)
    seen = await small.start("vm")
    assert seen.degraded
    assert seen.errors == (
        "provision.system/00000000: exit status 7: one thing / the disk is purple",
    )


async def test_damaged_disk_is_reported_at_the_start(small: World) -> None:
    directory = await small.create("vm", SMALL)
    (directory.path / "disk").write_bytes(b"no disk at all")
    await small.machines.start("vm")
    seen = await small.until("vm", lambda seen: seen.phase is Phase.STOPPED)
    assert "Image is not in qcow2 format" in seen.reason
    assert directory.status() is InstanceStatus.STOPPED


async def test_suspended_machine_resumes(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    boot = await boot_id(small, "vm")
    await small.shell("vm", "sh", "-c", "httpd -p 127.0.0.1:8096 -h /tmp; echo kept >/tmp/memory")
    # Suspended overnight, according to the clock.
    await small.shell("vm", "sudo", "date", "-u", "-s", "@1700000000")
    seen = await small.stop("vm", suspend=True)
    assert (seen.phase, seen.stop_error) == (Phase.STOPPED, "")
    assert directory.status() is InstanceStatus.STOPPED

    await small.start("vm")
    assert await boot_id(small, "vm") == boot
    assert await small.shell("vm", "cat", "/tmp/memory") == "kept"
    assert int(await small.shell("vm", "date", "+%s")) > 1_780_000_000
    await small.until("vm", lambda seen: any("8096" in one.host_address for one in seen.forwards))
    assert [one.name for one in (await disks.inspect(directory.path / "disk")).snapshots] == []

    # Loaded memory is never loaded again: the disk has changed since.
    await small.kill(directory.driver_process())
    await small.until("vm", lambda seen: seen.phase is Phase.STOPPED)
    await small.start("vm")
    assert await boot_id(small, "vm") != boot


async def test_incompatible_suspended_memory_is_discarded(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.start("vm")
    boot = await boot_id(small, "vm")
    await small.stop("vm", suspend=True)
    small.machines.write_template("vm", SMALL.replace("256MiB", "300MiB"))
    await small.start("vm")
    assert await boot_id(small, "vm") != boot
    log = directory.ha_stderr.read_text()
    assert "the suspended state is discarded, the machine boots: the template has changed" in log
    assert (await disks.inspect(directory.path / "disk")).snapshots == ()


async def test_snapshots_restore_the_disk(small: World) -> None:
    text = SMALL + "provision:\n- mode: system\n  script: mkdir -p /data; mount /dev/vda /data\n"
    directory = await small.create("vm", text)
    disk = directory.path / "disk"
    await small.start("vm")
    await small.shell("vm", "sudo", "sh", "-c", "echo before >/data/file; sync")
    with pytest.raises(Exception, match="lock"):
        await disks.create_snapshot(disk, "while it runs")
    await small.stop("vm")
    await disks.create_snapshot(disk, "good")
    await small.start("vm")
    await small.shell("vm", "sudo", "sh", "-c", "echo after >/data/file; sync")
    await small.stop("vm")
    await disks.restore_snapshot(disk, "good")
    await small.start("vm")
    assert await small.shell("vm", "cat", "/data/file") == "before"


async def test_stop_during_the_boot_ends_everything(small: World) -> None:
    directory = await small.create("vm", SMALL)
    await small.machines.start("vm")
    await eventually(lambda: directory.driver_process() is not None)
    agent = directory.agent()
    assert agent is not None
    send_signal(agent, signal.SIGTERM)
    await small.until("vm", lambda seen: seen.phase is Phase.STOPPED, timeout_s=120)
    assert directory.status() is InstanceStatus.STOPPED


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
async def test_guest_stands_still_while_this_computer_has_no_space(
    guests: Path, qemu_path: Path, guest_cache: Path
) -> None:
    async with AsyncExitStack() as stack:
        small = await stack.enter_async_context(world(guests / "small", guest_cache))
        home = small.user_home
        tmpfs = ["mount", "-t", "tmpfs", "-o", "size=2g", "tmpfs", str(home)]
        if run_program(tmpfs).returncode != 0:
            pytest.skip("root cannot mount on this machine")
        # What the world left is below the mount.
        umount = ["umount", "--lazy", str(home)]
        stack.push_async_callback(asyncio.to_thread, run_program, umount, check=True)
        stack.push_async_callback(small.close)
        text = (
            SMALL + "provision:\n- mode: system\n  script: mkdir -p /data; mount /dev/vda /data\n"
        )
        directory = await small.create("vm", text)
        await small.start("vm")
        filler = home / "filler"
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(home).free - (40 << 20))
        write = "dd if=/dev/urandom of=/data/big bs=1M count=120; sync; wc -c </data/big"
        writing = asyncio.create_task(
            small.shell("vm", "sudo", "sh", "-c", write, timeout_s=BOOT_S)
        )
        log = directory.path / "ha.stderr.log"
        await eventually(
            lambda: "the guest stands still until 64.0 MiB are free" in log.read_text()
        )
        assert not writing.done()
        filler.unlink()
        assert await writing == str(120 << 20)
        assert "the guest continues" in log.read_text()
        mounts = await small.shell("vm", "grep", "/data", "/proc/mounts")
        assert " rw," in mounts
