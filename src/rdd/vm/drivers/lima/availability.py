# SPDX-License-Identifier: Apache-2.0
"""Whether limactl works on this host, and for a template.

Lima validates templates itself when a machine is created. Only what is relevant to the driver
selection is checked before: another driver may be able to run the machine.
"""

import os
import shutil
import sys
from collections.abc import Mapping

from rdd.host.errors import HostError
from rdd.vm.drivers.lima import limactl
from rdd.vm.drivers.protocol import Availability
from rdd.vm.template.model import Template

NAME = "lima"
OLDEST = (2, 0, 0)
"""The first version with the host agent, files and options that this driver uses."""


def is_root() -> bool:
    """Return whether this process runs as root, which limactl refuses."""
    return os.geteuid() == 0


def default_kind() -> str:
    """Return Lima's default `vmType` on this host."""
    return "vz" if sys.platform == "darwin" else "qemu"


def lima_availability(
    environment: Mapping[str, str], template: Template | None = None
) -> Availability:
    """Return whether limactl can run the default kind of machine, or that of a template."""
    template = template or Template()
    return (
        _limactl(environment)
        or _kind(environment, template.vm_type, template.arch)
        or Availability(NAME, usable=True)
    )


def _limactl(environment: Mapping[str, str]) -> Availability | None:
    """Return why limactl does not work for this user; None if it does."""
    path = limactl.find(environment)
    if path is None:
        return _refusal("limactl is not installed", limactl.remedy())
    if is_root():
        return _refusal("limactl refuses to run as root", "run rdd as an ordinary user")
    try:
        found = limactl.version(path)
    except HostError as error:
        return _refusal(str(error), limactl.remedy())
    if found < OLDEST:
        has = ".".join(map(str, found))
        return _refusal(f"limactl {has} is too old, 2.0 is needed", limactl.remedy())
    if environment.get("RDD_GUEST_IMAGE"):
        return _refusal("RDD_GUEST_IMAGE is for the driver qemu", "unset it")
    return None


def _kind(environment: Mapping[str, str], kind: str, arch: str) -> Availability | None:
    """Return why Lima cannot run a `vmType` and an architecture; None if it can."""
    kind = kind or default_kind()
    if kind == "vz" and default_kind() != "vz":
        return _refusal("machines of vmType vz need macOS", "")
    if kind == "qemu":
        arch = arch or os.uname().machine.replace("arm64", "aarch64")
        emulator = f"qemu-system-{arch}"
        named = environment.get(f"QEMU_SYSTEM_{arch.upper()}", "")  # Lima's own override
        if not named and shutil.which(emulator, path=environment.get("PATH", "")) is None:
            return _refusal(f"limactl needs {emulator}, which is missing", "install QEMU")
    return None


def _refusal(reason: str, fix: str) -> Availability:
    return Availability(NAME, usable=False, reason=reason, fix=fix)
