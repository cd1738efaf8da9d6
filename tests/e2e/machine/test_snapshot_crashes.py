# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed while a snapshot is made or restored: the old state or the new one."""

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.limavm_parts import PLAIN, VmHome
from tests.e2e.machine.limavm_parts import vm_home as open_vm_home

from rdd.api import names
from rdd.vm.snapshots.machine import staging_of

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a machine of the type host needs root here"),
    pytest.mark.timeout(300),
]

FILES, SIZE = 40, 256 << 10


@pytest.fixture(scope="module")
def vm_home(rdd_script: Path, kubectl: Path, dockerd_path: Path) -> Iterator[VmHome]:
    for made in open_vm_home(rdd_script, kubectl, dockerd_path):
        made.world.rdd("service", "stop")
        made.world.rdd("service", "start", "--controllers=limavm,snapshot")
        made.create("vm", "--start", text=PLAIN)
        write(made, "old")
        yield made


def write(vm_home: VmHome, content: str) -> None:
    """Fill the data of the machine with one word."""
    data = vm_home.directory("vm").path / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    for number in range(FILES):
        (data / str(number)).write_bytes(content.encode() * (SIZE // len(content)))


def states(vm_home: VmHome) -> set[str]:
    """Return the words in the data of the machine; one unless it is mixed."""
    data = vm_home.directory("vm").path / "data"
    assert len(list(data.iterdir())) == FILES
    return {path.read_bytes()[:3].decode() for path in data.iterdir()}


def snapshot(vm_home: VmHome, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        vm_home.world.kubectl("get", "snapshot", name, "-o", "json")
    )
    return found


def is_ready(vm_home: VmHome, name: str) -> bool:
    status = snapshot(vm_home, name).get("status") or {}
    assert isinstance(status, dict)
    return bool(status.get("creationTime"))


def is_held(vm_home: VmHome) -> bool:
    return names.HOLD in (vm_home.vm("vm")["metadata"].get("annotations") or {})


def root(vm_home: VmHome) -> Path:
    return vm_home.world.instance.snapshot_dirs[0]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(lambda home: list(root(home).glob(".creating-*/machines")), id="copying"),
    ],
)
def test_creation_is_repeated(vm_home: VmHome, moment: Callable[[VmHome], object]) -> None:
    world, name = vm_home.world, f"s{uuid.uuid4().hex[:8]}"
    write(vm_home, "old")
    world.rdd("snapshot", "create", name, "--scope", "limavm/vm", "--wait=false")
    world.until(lambda: moment(vm_home))
    world.crash()
    assert states(vm_home) == {"old"}
    world.rdd("service", "start")
    world.until(lambda: is_ready(vm_home, name))
    world.until(lambda: not is_held(vm_home))
    vm_home.until_reason("vm", "Started")
    assert [path.name for path in root(vm_home).iterdir()] == [name]
    write(vm_home, "new")
    world.rdd("snapshot", "restore", name)
    assert states(vm_home) == {"old"}
    world.rdd("snapshot", "rm", name)


def staged(vm_home: VmHome) -> object:
    return staging_of(vm_home.directory("vm")).exists()


def exchanged(vm_home: VmHome) -> object:
    return states(vm_home) == {"old"}


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(staged, id="preparing"),
        pytest.param(exchanged, id="exchanged"),
    ],
)
def test_restore_is_completed(vm_home: VmHome, moment: Callable[[VmHome], object]) -> None:
    world, name = vm_home.world, f"s{uuid.uuid4().hex[:8]}"
    write(vm_home, "old")
    world.rdd("snapshot", "create", name, "--scope", "limavm/vm")
    write(vm_home, "new")
    world.rdd("snapshot", "restore", name, "--wait=false")
    world.until(lambda: moment(vm_home))
    world.crash()
    assert states(vm_home) in ({"old"}, {"new"})  # never a mixture
    world.rdd("service", "start")
    world.until(lambda: names.SNAPSHOT_RESTORE not in json.dumps(snapshot(vm_home, name)))
    vm_home.until_reason("vm", "Started")
    assert states(vm_home) == {"old"}
    assert not staged(vm_home)
    world.rdd("snapshot", "rm", name)
