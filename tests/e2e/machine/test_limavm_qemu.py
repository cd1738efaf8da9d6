# SPDX-License-Identifier: Apache-2.0
"""LimaVMs in real virtual machines from the command line: suspend, snapshots, clones."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.limavm_parts import VmHome
from tests.e2e.machine.limavm_parts import vm_home as open_vm_home

pytestmark = pytest.mark.timeout(300)

IN_ORDER = True  # the last test removes the image

TEMPLATE = """\
vmType: qemu
cpus: 1
memory: 256MiB
disk: 1GiB
provision:
- mode: system
  script: |
    #!/bin/sh
    mkdir -p /data && mount /dev/vda /data && chmod 777 /data
"""


@pytest.fixture(scope="module")
def vm_home(
    rdd_script: Path, kubectl: Path, dockerd_path: Path, guests: Path, guest_cache: Path
) -> Iterator[VmHome]:
    for made in open_vm_home(rdd_script, kubectl, dockerd_path):
        made.world.rdd("service", "stop")  # the next command starts it with these
        made.world.variables |= {
            "RDD_GUEST_IMAGE": str(guests / "small"),
            "RDD_CACHE_DIR": str(guest_cache),
            "RDD_VM_TYPE": "qemu",
        }
        yield made


def shell(vm_home: VmHome, name: str, line: str) -> str:
    return vm_home.world.rdd(
        "limavm", "shell", "--workdir", "/", name, "sh", "-c", line
    ).out.strip()


def _names(vm_home: VmHome) -> list[str]:
    found = vm_home.world.rdd("snapshot", "ls", "-o", "json").json()
    return sorted(one["name"] for one in found if one["state"] == "Complete")


def test_virtual_machine_from_creation_to_clone(vm_home: VmHome) -> None:
    rdd = vm_home.world.rdd
    vm_home.create("vm", "--start", text=TEMPLATE)
    assert vm_home.condition("vm") == ("Started", "Lima instance is running")
    shell(vm_home, "vm", "echo first >/data/file; sync")
    boot = shell(vm_home, "vm", "cat /proc/sys/kernel/random/boot_id")

    refused = vm_home.world.try_rdd("limavm", "snapshot", "create", "vm", "good")
    assert refused.code == 1
    assert "must be stopped" in refused.last[1]

    shell(vm_home, "vm", "sudo date -u -s @1700000000")
    rdd("limavm", "suspend", "vm")
    assert vm_home.condition("vm")[0] == "Stopped"
    assert rdd("limavm", "disk", "show", "vm", "-o", "json").json()["suspended"]
    rdd("limavm", "start", "vm")
    assert shell(vm_home, "vm", "cat /proc/sys/kernel/random/boot_id") == boot
    behind = "s behind and was set at 20"
    vm_home.world.until(lambda: behind in vm_home.condition("vm", "ClockSynchronized")[1])

    rdd("limavm", "stop", "vm")
    rdd("limavm", "snapshot", "create", "vm", "good")
    assert [one["name"] for one in rdd("limavm", "snapshot", "ls", "vm", "-o", "json").json()] == [
        "good"
    ]
    assert rdd("limavm", "snapshot", "list", "vm").out.splitlines()[1].startswith("good  20")
    again = vm_home.world.try_rdd("limavm", "snapshot", "create", "vm", "good")
    assert 'snapshot "good" already exists' in again.last[1]

    # The same snapshot as an object; one that is deleted inside of the disk is gone.
    rdd("limavm", "snapshot", "create", "vm", "Other")
    vm_home.world.until(lambda: _names(vm_home) == ["vm-good", "vm-other"])
    rdd("limavm", "snapshot", "delete", "vm", "Other")
    vm_home.world.until(lambda: _names(vm_home) == ["vm-good"])

    shown = vm_home.world.on_terminal("limavm", "start", "vm")
    assert shown.code == 0
    assert "%, " in shown.out  # the boot steps
    assert "Lima instance" not in shown.out
    shell(vm_home, "vm", "echo second >/data/file; sync")
    rdd("limavm", "stop", "vm")
    rdd("limavm", "clone", "vm", "copy")
    rdd("limavm", "snapshot", "restore", "vm", "good")
    rdd("limavm", "disk", "grow", "vm", "2GiB")
    rdd("limavm", "start", "vm")
    rdd("limavm", "start", "copy")
    assert shell(vm_home, "vm", "cat /data/file") == "first"
    assert shell(vm_home, "copy", "cat /data/file; hostname").split() == ["second", "lima-copy"]
    disk = rdd("limavm", "disk", "show", "vm", "-o", "json").json()
    assert disk["virtualBytes"] == 2 << 30
    assert "size in the guest" in rdd("limavm", "disk", "show", "copy").out
    trimmed = rdd("--log-level=info", "limavm", "disk", "trim", "copy")
    assert "uses" in trimmed.last[1]
    snapshots = vm_home.world.instance.snapshot_dirs[0]
    rdd("snapshot", "restore", "vm-good")
    assert shell(vm_home, "vm", "cat /data/file") == "first"
    assert "when that machine stops" in rdd("snapshot", "rm", "vm-good").last[1]
    rdd("limavm", "stop", "vm")
    vm_home.world.until(lambda: _names(vm_home) == [] and not snapshots.exists())
    assert rdd("limavm", "snapshot", "ls", "vm", "-o", "json").json() == []
    for name in ("vm", "copy"):
        rdd("limavm", "delete", "--force", name)
        assert not vm_home.directory(name).exists()
        vm_home.clean(name)


def test_snapshot_of_a_running_machine_outlives_it(vm_home: VmHome) -> None:
    rdd = vm_home.world.rdd
    vm_home.create("vm", "--start", text=TEMPLATE)
    shell(vm_home, "vm", "echo first >/data/file; sync")
    rdd("snapshot", "create", "base", "--scope", "limavm/vm")
    (made,) = rdd("snapshot", "ls", "-o", "json").json()
    assert (made["scope"], made["state"]) == ("limavm/vm", "Complete")
    assert made["method"] in ("qcow2", "reflink")
    assert vm_home.condition("vm")[0] == "Started"  # it continues by itself

    shell(vm_home, "vm", "echo second >/data/file; sync")
    rdd("snapshot", "restore", "base")
    assert shell(vm_home, "vm", "cat /data/file") == "first"

    rdd("limavm", "delete", "--force", "vm")
    rdd("snapshot", "restore", "base", "--as", "copy")
    rdd("limavm", "start", "copy")
    assert shell(vm_home, "copy", "cat /data/file; hostname").split() == ["first", "lima-copy"]
    refused = vm_home.world.try_rdd("snapshot", "restore", "base", "--as", "copy")
    assert "there is a machine" in refused.last[1]
    rdd("snapshot", "rm", "base")
    assert not Path(made["path"]).exists()
    rdd("limavm", "delete", "--force", "copy")
    for name in ("vm", "copy"):
        vm_home.clean(name)


def _is_suspended(vm_home: VmHome) -> bool:
    return vm_home.condition("vm", "Paused")[0] == "Suspended"


def test_idle_machine_is_suspended_and_survives_all_crashes(vm_home: VmHome) -> None:
    world, directory = vm_home.world, vm_home.directory("vm")
    vm_home.create("vm", "--start", text=TEMPLATE.partition("provision:")[0])
    boot = shell(vm_home, "vm", "cat /proc/sys/kernel/random/boot_id")
    idle = '{"spec": {"idle": {"action": "suspend", "afterSeconds": 1}}}'
    world.kubectl("patch", "limavm", "vm", "--type=merge", "-p", idle)
    world.until(lambda: _is_suspended(vm_home))
    assert vm_home.condition("vm")[0] == "Started"
    assert vm_home.condition("vm", "Paused")[1].startswith("suspended since 20")

    # Only the daemon is killed: the next one resumes the machine.
    world.crash()
    world.rdd("service", "start")
    world.until(lambda: vm_home.condition("vm")[0] == "Started" and _is_suspended(vm_home))
    assert shell(vm_home, "vm", "cat /proc/sys/kernel/random/boot_id") == boot

    # Daemon and agent are killed.
    world.until(lambda: _is_suspended(vm_home))
    agent = directory.agent()
    assert agent is not None
    world.crash()
    os.kill(agent.pid, signal.SIGKILL)
    world.until(lambda: directory.agent() is None)
    world.rdd("service", "start")
    world.until(lambda: vm_home.condition("vm")[0] == "Started")
    assert shell(vm_home, "vm", "cat /proc/sys/kernel/random/boot_id") == boot

    # What needs a running or stopped machine wakes it first.
    world.until(lambda: _is_suspended(vm_home))
    world.rdd("limavm", "stop", "vm")
    assert vm_home.condition("vm")[0] == "Stopped"
    assert not world.rdd("limavm", "disk", "show", "vm", "-o", "json").json()["suspended"]
    world.rdd("limavm", "delete", "--force", "vm")
    vm_home.clean("vm")


def test_image_errors_are_in_the_condition(vm_home: VmHome) -> None:
    vm_home.world.variables["RDD_GUEST_IMAGE"] = ""
    vm_home.world.rdd("service", "stop")
    text = "vmType: qemu\nimages:\n- location: http://127.0.0.1:1/disk.img\n"
    vm_home.create("bad", text=text)
    vm_home.world.until(lambda: vm_home.condition("bad", "Created")[0] == "CreateFailed")
    message = vm_home.condition("bad", "Created")[1]
    assert message.startswith('failed to download "http://127.0.0.1:1/disk.img": ')
    assert not vm_home.directory("bad").exists()
    vm_home.world.rdd("limavm", "delete", "bad")
