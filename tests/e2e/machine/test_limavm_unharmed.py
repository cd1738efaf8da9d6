# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to the daemon, engines and guests run on: containerd on the host, and qemu.

`test_limavm_host.py` has the same for moby, with containers that keep running.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.machine.limavm_parts import VmHome, processes
from tests.e2e.machine.limavm_parts import vm_home as open_vm_home

from rdd.host.processes import identity

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="an engine of its own needs root here"),
    pytest.mark.timeout(300),
]
CONTAINERD = """\
vmType: host
param:
  CONTAINER_ENGINE: containerd
probes:
- script: |
    #!/bin/sh
    echo "$PARAM_CONTAINER_ENGINE"
"""
QEMU = "vmType: qemu\ncpus: 1\nmemory: 256MiB\ndisk: 1GiB\n"


@pytest.fixture
def vm_home(rdd_script: Path, kubectl: Path, dockerd_path: Path) -> Iterator[VmHome]:
    yield from open_vm_home(rdd_script, kubectl, dockerd_path)


def life(own: VmHome, program: str) -> tuple[int, set[int]]:
    """Return what is the same as long as a machine has not been restarted.

    Its agent is not: the next daemon replaces it.
    """
    path = str(own.directory("vm").path).encode()
    engines = {
        pid
        for pid, words in processes()
        if Path(words[0].decode(errors="replace")).name.startswith(program)
        and any(path in word for word in words)
    }
    return own.driver_pid("vm"), engines


def attack(own: VmHome, program: str) -> None:
    """Attack the daemon of a running machine `vm` in every way that leaves its machine alone."""
    world = own.world
    before = life(own, program)
    for number in (signal.SIGKILL, signal.SIGSEGV):
        world.crash(number)
        assert life(own, program) == before
        world.rdd("svc", "start", "--controllers=limavm")
        world.until(lambda: own.condition("vm")[0] == "Started")
        assert life(own, program) == before
    os.kill(world.pid(), signal.SIGSTOP)
    assert "is stopped by a signal" in world.try_rdd("svc", "status").last[1]
    assert life(own, program) == before
    os.kill(world.pid(), signal.SIGCONT)
    world.until(lambda: own.condition("vm")[0] == "Started")
    daemon = world.pid()
    shutil.rmtree(world.instance.dir)
    world.until(lambda: identity(daemon) is None)
    assert life(own, program) == before
    world.rdd("svc", "start", "--controllers=limavm")
    assert world.kubectl("get", "limavms", "-A", "-o", "name") == ""
    assert life(own, program) == before


def replace(own: VmHome, text: str) -> None:
    """Create a machine of the same name: the old one ends and is in the trash."""
    own.create("vm", "--start", text=text)
    assert "vm" in own.world.rdd("trash", "ls").out
    own.world.rdd("limavm", "delete", "--force", "vm")
    own.clean("vm")


def test_engine_containerd_survives_its_daemon(
    vm_home: VmHome, real_part: Callable[[str], Path]
) -> None:
    real_part("ctr")
    vm_home.create("vm", "--start", text=CONTAINERD)
    assert life(vm_home, "containerd")[1]
    attack(vm_home, "containerd")
    replace(vm_home, CONTAINERD)


def test_guest_survives_its_daemon(vm_home: VmHome, guests: Path, guest_cache: Path) -> None:
    world = vm_home.world
    world.rdd("service", "stop")  # the next command starts it with these
    world.variables |= {
        "RDD_GUEST_IMAGE": str(guests / "small"),
        "RDD_CACHE_DIR": str(guest_cache),
        "RDD_VM_TYPE": "qemu",
    }
    vm_home.create("vm", "--start", text=QEMU)
    read = partial(world.rdd, "limavm", "shell", "--workdir", "/", "vm", "cat")
    boot = read("/proc/sys/kernel/random/boot_id").out
    world.crash()
    world.rdd("svc", "start", "--controllers=limavm")
    world.until(lambda: vm_home.condition("vm")[0] == "Started")
    assert read("/proc/sys/kernel/random/boot_id").out == boot
    attack(vm_home, "qemu")
    vm_home.kill(vm_home.agent_pid("vm"))
    vm_home.kill(vm_home.driver_pid("vm"))
