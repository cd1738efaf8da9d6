# SPDX-License-Identifier: Apache-2.0
"""The driver choice of the App, with real drivers and prepared programs on the PATH.

Each cause that keeps a driver from working is one row: what is missing, and the line of the
table that a user sees.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.vm.drivers.lima_world import program

from rdd.controllers.app.app.driver_choice import choose
from rdd.vm.drivers.host.availability import engine_availability

ARCH = os.uname().machine
ROOT_ENGINE = "dockerd containerd runc ip iptables iptables-restore iptables-save"
ROOTLESS_ENGINE = "dockerd containerd runc ip iptables rootlesskit newuidmap newgidmap slirp4netns"
QEMU = f"qemu-system-{ARCH} qemu-img ssh ssh-keygen"
LIMA = "limactl"
APT = "apt-get install -y --no-install-recommends"
INSTALL_QEMU = "install qemu: apt-get install qemu-system-x86 qemu-utils, or brew install qemu"
INSTALL_LIMA = "see https://lima-vm.io/docs/installation/"

Machine = Callable[..., dict[str, str]]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Creates an environment with exactly these programs, for root or another user."""
    monkeypatch.setattr("rdd.vm.drivers.host.commands._DAEMON_PATH", ())
    monkeypatch.setattr("rdd.vm.drivers.qemu.programs._EXTRA_DIRECTORIES", ())
    tun = tmp_path / "tun"

    def install(programs: str, *, is_root: bool, has_tun: bool = True) -> dict[str, str]:
        monkeypatch.setattr(os, "geteuid", lambda: 0 if is_root else 1000)
        defaults = {"is_root": None, "tun": tun}
        monkeypatch.setattr(engine_availability, "__kwdefaults__", defaults)
        if has_tun:
            tun.touch()
        binaries = tmp_path / "bin"
        binaries.mkdir()
        for name in programs.split():
            program(binaries / name, "echo limactl version 2.0.1" if name == LIMA else "exit 0")
        return {"PATH": str(binaries)}

    return install


def without(programs: str, *names: str) -> str:
    return " ".join(name for name in programs.split() if name not in names)


@pytest.mark.parametrize(
    ("programs", "is_root", "chosen"),
    [
        pytest.param(f"{LIMA} {QEMU} {ROOTLESS_ENGINE}", False, "lima", id="limactl for a user"),
        pytest.param(f"{QEMU} {ROOTLESS_ENGINE}", False, "host", id="a complete rootless engine"),
        pytest.param(
            f"{QEMU} {without(ROOTLESS_ENGINE, 'newgidmap')}", False, "qemu", id="an incomplete one"
        ),
        pytest.param(f"{LIMA} {ROOTLESS_ENGINE}", False, "host", id="limactl without an emulator"),
        pytest.param(f"{LIMA} {QEMU} {ROOT_ENGINE}", True, "host", id="root"),
        pytest.param(f"{LIMA} {QEMU}", True, "qemu", id="root without an engine"),
    ],
)
def test_auto_chooses_the_first_available_driver(
    machine: Machine, programs: str, is_root: bool, chosen: str
) -> None:
    assert choose("auto", machine(programs, is_root=is_root)).driver == chosen


def test_requested_type_is_the_only_candidate(machine: Machine) -> None:
    environment = machine(f"{LIMA} {QEMU} {ROOTLESS_ENGINE}", is_root=False)
    for wanted in ("lima", "qemu", "host"):
        assert choose(wanted, {**environment, "RDD_VM_TYPE": "lima"}).driver == wanted


CAUSES = [
    *(
        pytest.param(
            without(ROOT_ENGINE, name),
            True,
            f"host  {name} is not installed ({purpose}); to change that: {APT} {package}",
            id=f"root without {name}",
        )
        for name, purpose, package in (
            ("dockerd", "the container engine", "docker.io"),
            ("containerd", "the runtime below the container engine", "containerd"),
            ("runc", "the runtime below the container engine", "runc"),
            ("ip", "network namespaces", "iproute2"),
            ("iptables", "the network of containers", "iptables"),
            ("iptables-restore", "the network of containers", "iptables"),
            ("iptables-save", "the network of containers", "iptables"),
        )
    ),
    *(
        pytest.param(
            without(ROOTLESS_ENGINE, name),
            False,
            f"host  {name} is not installed ({purpose}); to change that: {APT} {package}",
            id=f"a user without {name}",
        )
        for name, purpose, package in (
            ("dockerd", "the container engine", "docker.io"),
            ("rootlesskit", "an engine without root", "rootlesskit"),
            ("newuidmap", "an engine without root", "uidmap"),
            ("newgidmap", "an engine without root", "uidmap"),
            ("slirp4netns", "the network of an engine without root", "slirp4netns"),
        )
    ),
    *(
        pytest.param(
            without(QEMU, name),
            True,
            f"qemu  {name} is missing; to change that: {fix}",
            id=f"qemu without {name}",
        )
        for name, fix in (
            (f"qemu-system-{ARCH}", INSTALL_QEMU),
            ("qemu-img", INSTALL_QEMU),
            ("ssh", "install the OpenSSH client"),
            ("ssh-keygen", "install the OpenSSH client"),
        )
    ),
    pytest.param(
        "", False, f"lima  limactl is not installed; to change that: {INSTALL_LIMA}", id="no Lima"
    ),
    pytest.param(
        LIMA,
        True,
        "lima  limactl refuses to run as root; to change that: run rdd as an ordinary user",
        id="Lima for root",
    ),
    pytest.param(
        LIMA,
        False,
        f"lima  limactl needs qemu-system-{ARCH}, which is missing; to change that: install QEMU",
        id="Lima without an emulator",
    ),
]


@pytest.mark.parametrize(("programs", "is_root", "line"), CAUSES)
def test_table_lists_the_reasons_of_all_drivers(
    machine: Machine, programs: str, is_root: bool, line: str
) -> None:
    choice = choose("auto", machine(programs, is_root=is_root))
    assert choice.driver == ""
    lines = choice.table().splitlines()
    assert line in lines
    assert len(lines) == 3


def test_inaccessible_device_is_reported(machine: Machine, tmp_path: Path) -> None:
    choice = choose("auto", machine(ROOTLESS_ENGINE, is_root=False, has_tun=False))
    tun = tmp_path / "tun"
    assert choice.table().splitlines()[1] == (
        f"host  {tun} is not open to this user, which an engine without root needs; "
        f"to change that: chmod 0666 {tun} as root, or run as root"
    )


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        pytest.param("echo limactl version 1.0.6", "limactl 1.0.6 is too old, 2.0 is", id="old"),
        pytest.param("echo nonsense; exit 0", "limactl", id="unintelligible"),
        pytest.param("echo broken >&2; exit 3", "limactl", id="broken"),
    ],
)
def test_unusable_limactl_is_reported(machine: Machine, says: str, reason: str) -> None:
    environment = machine(f"qemu-system-{ARCH}", is_root=False)
    program(Path(environment["PATH"]) / "limactl", says)
    choice = choose("auto", environment)
    assert choice.driver == ""
    first = choice.table().splitlines()[0]
    assert first.startswith("lima  ")
    assert reason in first
    assert first.endswith(f"; to change that: {INSTALL_LIMA}")
