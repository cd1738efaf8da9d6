# SPDX-License-Identifier: Apache-2.0
"""Which driver runs a machine."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.vm.drivers.lima_world import TEMPLATE, install, program

from rdd.host.errors import HostError
from rdd.vm.drivers import catalog
from rdd.vm.drivers.lima import refusals
from rdd.vm.drivers.protocol import Availability
from rdd.vm.drivers.selection import candidates, choose
from rdd.vm.instances import InstanceDirectory, LimaHome
from rdd.vm.lifecycle.create import create
from rdd.vm.template import HostFacts, parse

IMAGES = "images: [{location: /a}]\n"


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        pytest.param(IMAGES, {}, ("lima", "qemu", "host"), id="best first"),
        pytest.param("", {}, ("host",), id="without an image"),
        pytest.param(
            "", {"RDD_GUEST_IMAGE": "/i"}, ("lima", "qemu", "host"), id="image of the user"
        ),
        pytest.param("vmType: host", {"RDD_VM_TYPE": "qemu"}, ("host",), id="template first"),
        pytest.param("vmType: qemu", {}, ("lima", "qemu"), id="qemu"),
        pytest.param("vmType: qemu", {"RDD_VM_TYPE": "qemu"}, ("qemu",), id="qemu without Lima"),
        pytest.param("vmType: vz", {}, ("lima",), id="vz"),
        pytest.param("", {"RDD_VM_TYPE": "qemu"}, ("qemu",), id="asked for a driver"),
        pytest.param(IMAGES, {"RDD_VM_TYPE": "vz"}, ("lima",), id="asked for a type"),
    ],
)
def test_drivers_that_come_into_question(
    text: str, environment: Mapping[str, str], expected: tuple[str, ...]
) -> None:
    assert candidates(parse(text), environment) == expected


@pytest.mark.parametrize("environment", [{}, {"RDD_VM_TYPE": "lima"}])
@pytest.mark.parametrize(
    ("text", "driver"),
    [("vmType: qemu", "qemu"), ("vmType: qemu", "lima"), (IMAGES, "qemu"), (IMAGES, "lima")],
)
def test_driver_of_whoever_creates_the_machine_is_the_only_one(
    text: str, driver: str, environment: Mapping[str, str]
) -> None:
    assert candidates(parse(text), environment, driver=driver) == (driver,)


@pytest.mark.parametrize(
    ("text", "driver", "why"),
    [
        ("vmType: host", "qemu", "the driver qemu cannot run machines of vmType host"),
        ("vmType: vz", "host", "the driver host cannot run machines of vmType vz"),
        ("", "xen", 'there is no driver "xen"; known drivers: host, lima, qemu'),
    ],
)
def test_driver_that_cannot_do_it_is_refused(text: str, driver: str, why: str) -> None:
    with pytest.raises(HostError, match=why):
        choose(parse(text), {}, driver=driver)


def test_override_that_does_not_exist_is_refused() -> None:
    with pytest.raises(HostError, match='RDD_VM_TYPE="xen" is not a driver; known are host, lima'):
        candidates(parse(""), {"RDD_VM_TYPE": "xen"})


def test_first_driver_that_works_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "lima": Availability("lima", False, "limactl is not installed", "brew install lima"),
        "qemu": Availability("qemu", False, "no qemu-system-x86_64"),
        "host": Availability("host", True),
    }
    monkeypatch.setattr(
        catalog, "package", lambda name: SimpleNamespace(availability=lambda _: answers[name])
    )
    assert choose(parse(IMAGES), {}) == "host"
    with pytest.raises(HostError) as caught:
        choose(parse("vmType: qemu"), {})
    assert str(caught.value) == (
        "no driver can run this machine: lima: limactl is not installed (brew install lima); "
        "qemu: no qemu-system-x86_64"
    )


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="rdd-") as path:
        yield Path(path)


async def test_driver_that_was_asked_for_is_recorded_although_limactl_would_be_preferred(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(directory: InstanceDirectory) -> None: ...

    monkeypatch.setattr(refusals, "is_root", lambda: False)
    binaries = install(tmp_path)
    for name in ("qemu-img", "ssh", "ssh-keygen"):
        program(binaries / name, "exit 0")
    environment = {"PATH": str(binaries)}
    assert choose(parse(TEMPLATE), environment) == "lima"
    home = LimaHome(short_path / "lima")
    await create(
        home,
        "m",
        TEMPLATE,
        facts=HostFacts.gather(tmp_path),
        environment=environment,
        version="",
        progress=lambda _: None,
        fill=fill,
        driver="qemu",
    )
    assert home.directory("m").driver == "qemu"
