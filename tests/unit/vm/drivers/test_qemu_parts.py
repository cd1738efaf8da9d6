# SPDX-License-Identifier: Apache-2.0
"""The parts of the qemu driver that need no guest: command line, disks, accelerator, listeners."""

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from rdd.fetch.network import DIRECT
from rdd.host.errors import HostError
from rdd.vm.drivers import catalog
from rdd.vm.drivers.protocol import Endpoint, Forward, ForwardError, Listener
from rdd.vm.drivers.qemu import accelerator, arguments, disks, mounts, suspension
from rdd.vm.drivers.qemu import listeners as listening
from rdd.vm.drivers.qemu.guest_connection import GuestConnection, specification
from rdd.vm.drivers.qemu.programs import find, system_program
from rdd.vm.drivers.qemu.requirements import failures
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.ssh import SshTarget
from rdd.vm.template import HostFacts, parse, resolve
from rdd.vm.template.model import Template

FACTS = HostFacts(
    arch="x86_64", cpus=4, memory_bytes=8 << 30, user="anna", uid=501, home=Path("/home/anna")
)
KIND = suspension.MachineKind("template", "tcg", "max", "7.2", "words")


def template(text: str) -> Template:
    return resolve(parse(text), FACTS, name="vm", directory=Path("/lima/vm"), driver="qemu")


def machine(**changes: object) -> arguments.EmulatorOptions:
    made = arguments.EmulatorOptions(
        program=Path("/usr/bin/qemu-system-x86_64"), name="vm", accelerator="tcg", ssh_port=60022
    )
    return replace(made, **changes)  # type: ignore[arg-type]


# -- command line


def test_command_line_follows_from_the_template() -> None:
    words = arguments.command(template("cpus: 2\nmemory: 2GiB\n"), machine(), mac="52:55:55:1:2:3")
    text = " ".join(words)
    assert "-machine q35,vmport=off -accel tcg,thread=multi,tb-size=512 -cpu max" in text
    assert "-smp 2,sockets=1,cores=2,threads=1 -m 2048M -nodefaults" in text
    assert "hostfwd=tcp:127.0.0.1:60022-:22" in text
    assert "free-page-reporting=on" in text
    assert "discard=unmap" in text
    assert "-kernel" not in text
    assert "-loadvm" not in text


def test_guest_with_a_kernel_boots_directly() -> None:
    words = arguments.command(
        template("{}"),
        machine(kernel_line="quiet root=/dev/vda", has_initrd=True),
        mac="",
        resume=True,
    )
    assert words[words.index("-append") + 1] == "quiet root=/dev/vda"
    assert words[words.index("-initrd") + 1] == "initrd"
    assert words[words.index("-loadvm") + 1] == "rdd-suspend"


def test_hardware_acceleration_uses_the_host_cpu() -> None:
    words = arguments.hardware(template("{}"), machine(accelerator="kvm"), "")
    assert words[words.index("-accel") + 1] == "kvm"
    assert words[words.index("-cpu") + 1] == "host"


def test_shared_directories_need_shared_memory() -> None:
    offered = mounts.offered(template("mounts: [{location: /srv}]\n").mounts, mounts.VIRTIOFS)
    odd = template("memory: 1073742848\n")
    text = " ".join(arguments.command(odd, machine(shares=offered), mac=""))
    assert "-m 1024M" in text
    assert "memory-backend-memfd,id=mem,size=1024M,share=on" in text
    assert "vhost-user-fs-pci,queue-size=1024,chardev=fs0,tag=mount0" in text


def test_commas_in_paths_are_escaped() -> None:
    offered = mounts.offered(template("mounts: [{location: '/a,b'}]\n").mounts, mounts.NINE_P)
    text = " ".join(arguments.command(template("{}"), machine(shares=offered), mac=""))
    assert "path=/a,,b,security_model=none,readonly=on" in text


def test_mac_address_is_stable_and_unique() -> None:
    first = arguments.mac_address("a", Path("/x"))
    assert first == arguments.mac_address("a", Path("/x"))
    assert first != arguments.mac_address("b", Path("/x"))
    assert first.startswith("52:55:55:")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        pytest.param("mounts: [{location: /srv}]\n", "ro", id="read-only"),
        pytest.param("mounts: [{location: /srv, writable: true}]\n", "rw", id="writable"),
    ],
)
def test_mounts_of_the_guest_have_options(text: str, options: str) -> None:
    (share,) = mounts.mounted_by_guest(template(text).mounts, mounts.VIRTIOFS)
    assert (share.mount_point, share.options) == ("/srv", options)
    (share,) = mounts.mounted_by_guest(template(text).mounts, mounts.NINE_P)
    assert share.options.startswith(f"{options},trans=virtio,version=9p2000.L,msize=131072,cache=")


def test_mounts_fall_back_to_sshfs_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"PATH": os.environ["PATH"]}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert mounts.kind_of(template("{}"), environment) == mounts.SSHFS
    with pytest.raises(HostError, match=r"virtiofs needs (root|virtiofsd)"):
        mounts.kind_of(template("mountType: virtiofs\n"), environment)


# -- programs


def test_missing_qemu_is_reported_with_the_fix() -> None:
    environment = {"PATH": "/nowhere"}
    with pytest.raises(HostError, match="qemu-system-riscv64 is not installed; install qemu"):
        system_program("riscv64", environment)
    answer = catalog.provider("qemu").availability(environment)
    if not answer.usable:
        assert answer.reason.endswith("is missing")
        assert answer.fix


# -- accelerator


async def test_trial_boot_succeeds_with_emulation(qemu_path: Path) -> None:
    assert await accelerator.trial(qemu_path, "tcg") is not None
    assert await accelerator.trial(qemu_path, "nonsense") is None


async def test_accelerator_without_a_finished_trial_is_not_selected(
    qemu_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials: list[str] = []

    async def trial(program: Path, name: str) -> float | None:
        trials.append(name)
        return {"kvm": None, "tcg": 0.4}[name]

    monkeypatch.setattr(accelerator, "trial", trial)
    monkeypatch.setattr(accelerator, "_candidates", lambda program: ["kvm"])
    cache = tmp_path / "sub" / "accelerator.json"
    assert await accelerator.choose(qemu_path, {}, cache) == "tcg"
    assert await accelerator.choose(qemu_path, {}, cache) == "tcg"
    assert trials == ["kvm", "tcg"]  # only one trial each
    cache.write_text(cache.read_text().replace('"key": "', '"key": "another '))
    assert await accelerator.choose(qemu_path, {}, cache) == "tcg"
    assert len(trials) == 4


async def test_faster_accelerator_is_selected(
    qemu_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def trial(program: Path, name: str) -> float | None:
        return {"kvm": 3.0, "tcg": 0.4}[name]

    monkeypatch.setattr(accelerator, "trial", trial)
    monkeypatch.setattr(accelerator, "_candidates", lambda program: ["kvm"])
    assert await accelerator.choose(qemu_path, {}, tmp_path / "a.json") == "tcg"


async def test_accelerator_can_be_overridden(tmp_path: Path) -> None:
    program = Path("/usr/bin/qemu-system-x86_64")
    assert await accelerator.choose(program, {"RDD_QEMU_ACCEL": "kvm"}, tmp_path / "x") == "kvm"
    with pytest.raises(HostError, match='RDD_QEMU_ACCEL="fast" is not one of kvm, hvf, tcg'):
        await accelerator.choose(program, {"RDD_QEMU_ACCEL": "fast"}, tmp_path / "x")


# -- disks


@pytest.fixture
async def disk(tmp_path: Path, qemu_path: Path) -> Path:
    (tmp_path / "image").write_bytes(bytes(1 << 20))
    await disks.create_overlay(tmp_path / "image", tmp_path / "disk", 8 << 20)
    return tmp_path / "disk"


async def test_disk_is_an_overlay_of_the_image(disk: Path) -> None:
    found = await disks.inspect(disk)
    assert (found.virtual_bytes, found.backing, found.snapshots) == (8 << 20, "image", ())
    moved = disk.parent / "moved"
    moved.mkdir()
    for name in ("image", "disk"):
        (disk.parent / name).rename(moved / name)
    assert (await disks.inspect(moved / "disk")).virtual_bytes == 8 << 20


async def test_disk_is_never_smaller_than_the_image(tmp_path: Path, qemu_path: Path) -> None:
    (tmp_path / "image").write_bytes(bytes(2 << 20))
    await disks.create_overlay(tmp_path / "image", tmp_path / "disk", 1 << 20)
    assert (await disks.inspect(tmp_path / "disk")).virtual_bytes == 2 << 20


async def test_disk_grows_but_never_shrinks(disk: Path) -> None:
    assert await disks.grow(disk, 16 << 20)
    assert not await disks.grow(disk, 16 << 20)
    assert (await disks.inspect(disk)).virtual_bytes == 16 << 20
    with pytest.raises(HostError, match="cannot shrink to 1048576"):
        await disks.grow(disk, 1 << 20)


async def test_snapshots_have_names(disk: Path) -> None:
    await disks.create_snapshot(disk, "one")
    await disks.create_snapshot(disk, "two")
    await disks.create_snapshot(disk, disks.SUSPEND_TAG)
    assert [one.name for one in await disks.snapshots(disk)] == ["one", "two"]
    with pytest.raises(disks.SnapshotError, match='snapshot "one" already exists'):
        await disks.create_snapshot(disk, "one")
    with pytest.raises(
        disks.SnapshotError, match='snapshot "three" does not exist; existing snapshots: one, two'
    ):
        await disks.restore_snapshot(disk, "three")
    await disks.restore_snapshot(disk, "one")
    await disks.delete_snapshot(disk, "one")
    await disks.discard_memory(disk)
    await disks.discard_memory(disk)
    assert [one.name for one in (await disks.inspect(disk)).snapshots] == ["two"]


async def test_rejects_an_image_with_a_backing_file(disk: Path) -> None:
    with pytest.raises(HostError, match='is incomplete: it depends on "image"'):
        await disks.create_overlay(disk, disk.with_name("other"), 0)


def test_rejects_an_iso_image(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(bytes(32769) + b"CD001" + bytes(100))
    with pytest.raises(HostError, match="is an ISO image: the qemu driver needs a disk image"):
        disks.image_format(path)


async def test_damaged_image_is_reported(tmp_path: Path, qemu_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"QFI\xfb" + b"\xff" * 600)
    with pytest.raises(HostError, match=r"qemu-img info: .*image"):
        await disks.create_overlay(tmp_path / "image", tmp_path / "disk", 0)


# -- suspended memory


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({}, "", id="same"),
        pytest.param({"template": "x"}, "the template has changed", id="template"),
        pytest.param(
            {"qemu": "9.0", "cpu": "x"},
            "the processor model has changed, the version of qemu has changed",
            id="two",
        ),
    ],
)
def test_memory_fits_only_the_same_machine(changes: dict[str, str], reason: str) -> None:
    assert KIND.difference(replace(KIND, **changes)) == reason


def test_suspended_state_survives_a_round_trip_and_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "suspended.json"
    assert suspension.read(path) is None
    kept = suspension.Suspended(KIND, "iid-1")
    suspension.write(path, kept)
    assert suspension.read(path) == kept
    suspension.clear(path)
    assert not path.exists()
    path.write_text("{}")
    assert suspension.read(path) is None


# -- the guest


def test_parses_listeners_of_the_kernel() -> None:
    lines = [
        "0100007F:1F90",
        "00000000:0016",
        "00000000000000000000000000000000:0016",
        "00000000000000000000000001000000:1F91",
        "0000000000000000FFFF00000100007F:1F92",
        "nonsense",
        "",
    ]
    assert listening.parse(lines) == {
        Listener("tcp", "127.0.0.1", 8080),
        Listener("tcp", "0.0.0.0", 22),
        Listener("tcp", "::", 22),
        Listener("tcp", "::1", 8081),
        Listener("tcp", "127.0.0.1", 8082),
    }


def test_failures_of_scripts_are_one_line_each() -> None:
    text = "provision.system/0: exit status 3\n  one\n  two\nprovision.user/1: exit status 1\n"
    assert failures(text) == [
        "provision.system/0: exit status 3: one / two",
        "provision.user/1: exit status 1",
    ]
    assert failures("") == []


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        pytest.param(
            Forward("tcp", Endpoint("0.0.0.0", 80), Endpoint("127.0.0.1", 8080)),
            "127.0.0.1:8080:127.0.0.1:80",
            id="port",
        ),
        pytest.param(
            Forward("tcp", Endpoint("::", 80), Endpoint("::1", 8080)),
            "[::1]:8080:[::1]:80",
            id="IPv6",
        ),
        pytest.param(
            Forward("tcp", Endpoint(socket="/run/g"), Endpoint(socket="/h")),
            "/h:/run/g",
            id="socket",
        ),
        pytest.param(
            Forward("tcp", Endpoint(socket="/run/g"), Endpoint(socket="/h"), reverse=True),
            "/run/g:/h",
            id="reverse",
        ),
    ],
)
def test_forward_specifications_have_the_syntax_of_ssh(forward: Forward, expected: str) -> None:
    assert specification(forward) == expected


async def test_address_in_use_is_reported_with_a_typed_reason(tmp_path: Path) -> None:
    target = SshTarget(port=1, user="x", identity=tmp_path / "k", control=tmp_path / "c")
    link = GuestConnection(
        target, log=tmp_path / "log", record=lambda forwards: None, warn=lambda text: None
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        forward = Forward("tcp", Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", port))
        with pytest.raises(ForwardError, match=f"127.0.0.1:{port}: Address already in use"):
            await link.open_forward(forward)
    with pytest.raises(ForwardError, match="udp is not forwarded") as refused:
        await link.open_forward(Forward("udp", Endpoint("", 1), Endpoint("127.0.0.1", 2)))
    assert refused.value.permanent


def test_programs_outside_the_path_are_found() -> None:
    assert find("sh", {"PATH": "/bin"}) == Path("/bin/sh")
    assert find("no-such-program", {"PATH": "/bin"}) is None


def test_cached_accelerator_is_readable(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"key": "k", "accelerator": "kvm"}))
    assert accelerator._cached(tmp_path / "a.json", "k") == "kvm"
    (tmp_path / "a.json").write_text("[]")
    assert accelerator._cached(tmp_path / "a.json", "k") == ""


# -- creation


async def test_installed_guest_is_the_fallback_for_unreachable_images(
    tmp_path: Path, qemu_path: Path
) -> None:
    installed = tmp_path / "data" / "rdd" / "guest"
    installed.mkdir(parents=True)
    (installed / "image").write_bytes(bytes(1 << 20))
    directory = InstanceDirectory(tmp_path / "lima" / "vm")
    directory.path.mkdir(parents=True)
    wanted = template("disk: 4MiB\nimages: [{location: 'http://127.0.0.1:1/disk'}]\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "RDD_CACHE_DIR": str(tmp_path / "cache"),
        "RDD_QEMU_ACCEL": "tcg",
    }
    messages: list[str] = []
    with pytest.raises(HostError, match=r'failed to download "http://127\.0\.0\.1:1/disk"'):
        await catalog.provider("qemu").prepare(
            directory, wanted, environment=environment, progress=messages.append, network=DIRECT
        )
    environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    await catalog.provider("qemu").prepare(
        directory, wanted, environment=environment, progress=messages.append, network=DIRECT
    )
    assert any("using the installed guest image" in line for line in messages)
    assert (await disks.inspect(directory.path / "disk")).virtual_bytes == 4 << 20


async def test_missing_image_for_the_architecture_is_reported(
    tmp_path: Path, qemu_path: Path
) -> None:
    directory = InstanceDirectory(tmp_path / "lima" / "vm")
    directory.path.mkdir(parents=True)
    wanted = template("images: [{location: 'http://127.0.0.1:1/disk', arch: aarch64}]\n")
    with pytest.raises(HostError, match="no image for x86_64; available: aarch64"):
        await catalog.provider("qemu").prepare(
            directory,
            wanted,
            environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            progress=lambda line: None,
            network=DIRECT,
        )
