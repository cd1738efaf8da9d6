# SPDX-License-Identifier: Apache-2.0
"""LimaVMs in real virtual machines, as a user handles them: suspend, snapshots, disks, clones."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.machine.limavm_parts import Place
from tests.e2e.machine.limavm_parts import place as make_place

pytestmark = pytest.mark.timeout(300)

IN_ORDER = True  # the last test takes the image away

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
def place(
    rdd_script: Path, kubectl: Path, dockerd_path: Path, guests: Path, guest_cache: Path
) -> Iterator[Place]:
    for made in make_place(rdd_script, kubectl, dockerd_path):
        made.world.rdd("service", "stop")  # the next command starts it with these
        made.world.variables |= {
            "RDD_GUEST_IMAGE": str(guests / "small"),
            "RDD_CACHE_DIR": str(guest_cache),
            "RDD_VM_TYPE": "qemu",
        }
        yield made


def shell(place: Place, name: str, line: str) -> str:
    return place.world.rdd("limavm", "shell", "--workdir", "/", name, "sh", "-c", line).out.strip()


def test_virtual_machine_of_a_user_from_creation_to_clone(place: Place) -> None:
    rdd = place.world.rdd
    place.create("vm", "--start", text=TEMPLATE)
    assert place.said("vm") == ("Started", "Lima instance is running")
    shell(place, "vm", "echo first >/data/file; sync")
    boot = shell(place, "vm", "cat /proc/sys/kernel/random/boot_id")

    refused = place.world.try_rdd("limavm", "snapshot", "create", "vm", "good")
    assert refused.code == 1
    assert "must be stopped" in refused.last[1]

    rdd("limavm", "suspend", "vm")
    assert place.said("vm")[0] == "Stopped"
    assert rdd("limavm", "disk", "show", "vm", "-o", "json").json()["suspended"]
    rdd("limavm", "start", "vm")
    assert shell(place, "vm", "cat /proc/sys/kernel/random/boot_id") == boot

    rdd("limavm", "stop", "vm")
    rdd("limavm", "snapshot", "create", "vm", "good")
    assert [one["name"] for one in rdd("limavm", "snapshot", "ls", "vm", "-o", "json").json()] == [
        "good"
    ]
    assert rdd("limavm", "snapshot", "list", "vm").out.splitlines()[1].startswith("good  20")
    again = place.world.try_rdd("limavm", "snapshot", "create", "vm", "good")
    assert 'snapshot "good" already exists' in again.last[1]

    rdd("limavm", "start", "vm")
    shell(place, "vm", "echo second >/data/file; sync")
    rdd("limavm", "stop", "vm")
    rdd("limavm", "clone", "vm", "copy")
    rdd("limavm", "snapshot", "restore", "vm", "good")
    rdd("limavm", "disk", "grow", "vm", "2GiB")
    rdd("limavm", "start", "vm")
    rdd("limavm", "start", "copy")
    assert shell(place, "vm", "cat /data/file") == "first"
    assert shell(place, "copy", "cat /data/file; hostname").split() == ["second", "lima-copy"]
    disk = rdd("limavm", "disk", "show", "vm", "-o", "json").json()
    assert disk["virtualBytes"] == 2 << 30
    assert "size in the guest" in rdd("limavm", "disk", "show", "copy").out
    trimmed = rdd("--log-level=info", "limavm", "disk", "trim", "copy")
    assert "uses" in trimmed.last[1]
    for name in ("vm", "copy"):
        rdd("limavm", "delete", "--force", name)
        assert not place.directory(name).exists()
        place.clean(name)


def test_what_is_wrong_with_an_image_is_in_the_condition(place: Place) -> None:
    place.world.variables["RDD_GUEST_IMAGE"] = ""
    place.world.rdd("service", "stop")
    text = "vmType: qemu\nimages:\n- location: http://127.0.0.1:1/disk.img\n"
    place.create("bad", text=text)
    place.world.until(lambda: place.said("bad", "Created")[0] == "CreateFailed")
    message = place.said("bad", "Created")[1]
    assert message.startswith('failed to download "http://127.0.0.1:1/disk.img": ')
    assert not place.directory("bad").exists()
    place.world.rdd("limavm", "delete", "bad")
