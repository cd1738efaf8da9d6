# SPDX-License-Identifier: Apache-2.0
"""Driver selection."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.unit.vm.drivers.lima_world import TEMPLATE, install, program

from rdd.host.errors import HostError
from rdd.vm.drivers import catalog
from rdd.vm.drivers.lima import availability
from rdd.vm.drivers.protocol import Availability
from rdd.vm.drivers.selection import (
    GuestImage,
    candidates,
    driver_for,
    preference,
    request_of,
)
from rdd.vm.instance_dir import InstanceDirectory, LimaHome
from rdd.vm.lifecycle.create import create
from rdd.vm.template import HostFacts, parse

IMAGES = "images: [{location: /a}]\n"


GUEST_FIRST = ("lima", "qemu", "host")


def of(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    return candidates(request_of(parse(text), environment), environment)


def test_preference_depends_on_the_image() -> None:
    assert preference(GuestImage.GIVEN) == GUEST_FIRST
    assert preference(GuestImage.ON_DEMAND) == ("lima", "host", "qemu")
    assert preference(GuestImage.NONE) == ("host",)


@pytest.mark.parametrize(
    ("text", "environment", "expected"),
    [
        pytest.param(IMAGES, {}, GUEST_FIRST, id="best first"),
        pytest.param("", {}, ("host",), id="without an image"),
        pytest.param("", {"RDD_GUEST_IMAGE": "/i"}, GUEST_FIRST, id="image of the user"),
        pytest.param("vmType: host", {"RDD_VM_TYPE": "qemu"}, ("host",), id="template first"),
        pytest.param("vmType: qemu", {}, ("lima", "qemu"), id="qemu"),
        pytest.param("vmType: qemu", {"RDD_VM_TYPE": "qemu"}, ("qemu",), id="qemu without Lima"),
        pytest.param("vmType: vz", {}, ("lima",), id="vz"),
        pytest.param("", {"RDD_VM_TYPE": "qemu"}, ("qemu",), id="override names a driver"),
        pytest.param(IMAGES, {"RDD_VM_TYPE": "vz"}, ("lima",), id="override names a vmType"),
    ],
)
def test_candidates_of_a_template(
    text: str, environment: Mapping[str, str], expected: tuple[str, ...]
) -> None:
    assert of(text, environment) == expected


@pytest.mark.parametrize("environment", [{}, {"RDD_VM_TYPE": "lima"}])
@pytest.mark.parametrize(
    ("text", "driver"),
    [("vmType: qemu", "qemu"), ("vmType: qemu", "lima"), (IMAGES, "qemu"), (IMAGES, "lima")],
)
def test_named_driver_is_the_only_candidate(
    text: str, driver: str, environment: Mapping[str, str]
) -> None:
    request = request_of(parse(text), environment, driver=driver)
    assert candidates(request, environment) == (driver,)


@pytest.mark.parametrize(
    ("text", "driver", "why"),
    [
        ("vmType: host", "qemu", "the driver qemu cannot run machines of vmType host"),
        ("vmType: vz", "host", "the driver host cannot run machines of vmType vz"),
        ("", "xen", 'unknown driver "xen"; known drivers: host, lima, qemu'),
    ],
)
def test_rejects_named_driver_that_cannot_run_the_machine(text: str, driver: str, why: str) -> None:
    with pytest.raises(HostError, match=why):
        driver_for(parse(text), {}, driver=driver)


def test_rejects_unknown_override() -> None:
    known = "known drivers: host, lima, qemu, vz"
    with pytest.raises(HostError, match=f'RDD_VM_TYPE="xen" is not a driver; {known}'):
        of("", {"RDD_VM_TYPE": "xen"})


def test_first_usable_driver_is_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "lima": Availability("lima", False, "limactl is not installed", "brew install lima"),
        "qemu": Availability("qemu", False, "no qemu-system-x86_64"),
        "host": Availability("host", True),
    }
    monkeypatch.setattr(catalog, "availability", lambda name, *_: answers[name])
    assert driver_for(parse(IMAGES), {}) == "host"
    with pytest.raises(HostError) as caught:
        driver_for(parse("vmType: qemu"), {})
    assert str(caught.value) == (
        "no driver can run this machine: lima: limactl is not installed (brew install lima); "
        "qemu: no qemu-system-x86_64"
    )


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="rdd-") as path:
        yield Path(path)


async def test_named_driver_is_recorded_although_lima_is_preferred(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fill(directory: InstanceDirectory) -> None: ...

    monkeypatch.setattr(availability, "is_root", lambda: False)
    binaries = install(tmp_path)
    for name in ("qemu-img", "ssh", "ssh-keygen"):
        program(binaries / name, "exit 0")
    environment = {"PATH": str(binaries)}
    assert driver_for(parse(TEMPLATE), environment) == "lima"
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
