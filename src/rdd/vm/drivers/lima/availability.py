# SPDX-License-Identifier: Apache-2.0
"""Whether limactl can be used here, and for this machine.

Lima judges templates itself when a machine is created. Only what decides between drivers is
asked before: another one may be able to do what Lima cannot.
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
"""The first version whose host agent, files and options are those this driver knows."""


def is_root() -> bool:
    """Whether we are root, for whom limactl does nothing."""
    return os.geteuid() == 0


def default_kind() -> str:
    """The `vmType` that Lima takes where a template has none."""
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
    """Why limactl does nothing for this user; None when it does."""
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
        return _refusal("RDD_GUEST_IMAGE names an image for the driver qemu", "unset it")
    return None


def _kind(environment: Mapping[str, str], kind: str, arch: str) -> Availability | None:
    """Why Lima cannot run machines of a `vmType` and an architecture; None when it can."""
    kind = kind or default_kind()
    if kind == "vz" and default_kind() != "vz":
        return _refusal("machines of vmType vz need macOS", "")
    if kind == "qemu":
        arch = arch or os.uname().machine.replace("arm64", "aarch64")
        emulator = f"qemu-system-{arch}"
        named = environment.get(f"QEMU_SYSTEM_{arch.upper()}", "")  # as Lima lets users name it
        if not named and shutil.which(emulator, path=environment.get("PATH", "")) is None:
            return _refusal(f"limactl needs {emulator}, which is missing", "install QEMU")
    return None


def _refusal(reason: str, fix: str) -> Availability:
    return Availability(NAME, usable=False, reason=reason, fix=fix)
