# SPDX-License-Identifier: Apache-2.0
"""The driver `qemu`: a virtual machine of our own making (docs/qemu.md).

The functions are those of `rdd.vm.drivers.protocol.DriverPackage`; each loads what it needs when
it is called, for an agent must stay small and the command line quick.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rdd.vm.drivers.protocol import Availability, Driver, Setting, ShellCommand
from rdd.vm.instances import InstanceDirectory
from rdd.vm.template.model import Template

if TYPE_CHECKING:
    from rdd.vm.drivers.qemu.owned_disk import Storage

__all__ = ["availability", "cleanup", "driver", "prepare", "shell", "storage"]


def availability(environment: Mapping[str, str]) -> Availability:
    """Whether qemu and ssh are installed."""
    import os

    from rdd.vm.drivers.qemu.programs import INSTALL, find

    arch = os.uname().machine.replace("arm64", "aarch64")
    for name in (f"qemu-system-{arch}", "qemu-img"):
        if find(name, environment) is None:
            return Availability("qemu", usable=False, reason=f"{name} is missing", fix=INSTALL)
    for name in ("ssh", "ssh-keygen"):
        if find(name, environment) is None:
            fix = "install the OpenSSH client"
            return Availability("qemu", usable=False, reason=f"{name} is missing", fix=fix)
    return Availability("qemu", usable=True)


def driver(setting: Setting) -> Driver:
    """The driver of one machine, for its agent."""
    from rdd.vm.drivers.qemu.emulator import QemuDriver

    return QemuDriver(setting)


async def prepare(
    directory: InstanceDirectory,
    template: Template,
    *,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Fetch the image and make the disk."""
    from rdd.vm.drivers.qemu.preparation import prepare

    await prepare(directory, template, environment=environment, progress=progress)


def shell(
    directory: InstanceDirectory,
    template: Template,
    *,
    command: Sequence[str],
    environment: Mapping[str, str],
    shell: str = "",
    workdir: str = "",
    is_terminal: bool = False,
) -> ShellCommand:
    """How to run a command in the guest, or a login shell."""
    from rdd.vm.drivers.qemu.shells import shell as over_ssh

    return over_ssh(
        directory,
        template,
        command=command,
        environment=environment,
        shell=shell,
        workdir=workdir,
        is_terminal=is_terminal,
    )


async def cleanup(directory: InstanceDirectory) -> None:
    """End by force what of the machine still runs."""
    from rdd.vm.drivers.qemu.teardown import cleanup

    await cleanup(directory)


def storage(directory: InstanceDirectory) -> "Storage":
    """The disk of a machine: size, snapshots, clones."""
    from rdd.vm.drivers.qemu.owned_disk import Storage

    return Storage(directory)
