# SPDX-License-Identifier: Apache-2.0
"""The script that a guest runs at each boot, with the guest's directories below a temporary one."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.programs import run_program

from rdd.controllers.app.app import scripts

RELEASE = "v1.33.7+k3s3"


class Guest:
    """A root directory, and programs that record how they are called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls = root / "calls"
        self.files = root / "host" / RELEASE
        for name in ("bin", "etc/sysconfig", "etc/systemd/system", "etc/rancher/k3s", "run"):
            (root / name).mkdir(parents=True)
        self._program("systemd-run", "exit 0")
        self._program("curl", "exit 1")
        # It has the units of files, and none besides.
        self._program("systemctl", f'[ "$1" != cat ] || [ -e "{root}/etc/systemd/system/$2" ]')

    def _program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.calls}\n{text}\n')
        path.chmod(0o755)

    def fetch(self) -> None:
        """Put the files of a release where the host has them."""
        self.files.mkdir(parents=True)
        program = self.files / "k3s"
        program.write_text(f"#!/bin/sh\necho 'k3s version {RELEASE} (0badcafe)'\n")
        program.chmod(0o755)
        (self.files / "k3s-airgap-images-amd64.tar.zst").write_bytes(b"images")

    def boot(self, engine: str = "moby", kubernetes: str = "true") -> Any:
        settings = {
            "CONTAINER_ENGINE": engine,
            "KUBERNETES_ENABLED": kubernetes,
            "KUBERNETES_RELEASE": RELEASE,
            "KUBERNETES_FILES": str(self.files),
            "SETTINGS_FILES": "",
        }
        text = "".join(f'{name}="{value}"\n' for name, value in settings.items())
        (self.root / "etc/sysconfig/rancher-desktop").write_text(text)
        inside = re.sub(r"(?<![\w}/])/(etc|usr|var|run)/", rf"{self.root}/\1/", scripts.SET_UP)
        self.calls.write_text("")
        path = f"{self.root}/bin:{self.root}/usr/local/bin:/usr/bin:/bin"
        return run_program(["sh", "-c", inside], env={**os.environ, "PATH": path})

    @property
    def has_no_k3s(self) -> bool:
        return (self.root / "run" / "rdd-no-k3s").exists()


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def test_guest_installs_what_the_host_has_fetched(guest: Guest) -> None:
    guest.fetch()
    done = guest.boot()
    assert (done.returncode, done.stderr) == (0, "")
    assert (guest.root / "usr/local/bin/k3s").read_text() == (guest.files / "k3s").read_text()
    unit = guest.root / "etc/systemd/system/k3s.service"
    assert unit.read_text().endswith("k3s server\n")
    assert (unit.parent / "rancher-desktop.target.wants" / "k3s.service").readlink() == unit
    assert not guest.has_no_k3s
    assert "curl" not in guest.calls.read_text()
    assert "images import" not in guest.calls.read_text()  # the host loads them into docker


def test_guest_without_the_files_fetches_nothing_and_starts_the_engine(guest: Guest) -> None:
    for unit in ("docker.socket", "docker.service"):
        (guest.root / "etc/systemd/system" / unit).touch()
    done = guest.boot()
    assert done.returncode == 1
    assert f"k3s {RELEASE} is not in {guest.files} of the host" in done.stderr
    assert guest.has_no_k3s
    calls = guest.calls.read_text()
    assert "curl" not in calls
    assert "systemctl start --no-block docker.service" in calls
    assert "k3s.service" not in calls.replace("systemctl cat k3s.service", "")
    guest.fetch()
    assert guest.boot().returncode == 0
    assert not guest.has_no_k3s


def test_containerd_imports_the_images_for_kubernetes(guest: Guest) -> None:
    guest.fetch()
    assert guest.boot("containerd").returncode == 0
    (line,) = [one for one in guest.calls.read_text().splitlines() if "images import" in one]
    assert "-n k8s.io images import" in line
    assert line.endswith("k3s-airgap-images-amd64.tar.zst")


def test_guest_keeps_a_k3s_of_the_right_release(guest: Guest) -> None:
    guest.fetch()
    (guest.files / "k3s").rename(guest.root / "bin" / "k3s")
    assert guest.boot().returncode == 0
    assert not (guest.root / "usr/local/bin/k3s").exists()
