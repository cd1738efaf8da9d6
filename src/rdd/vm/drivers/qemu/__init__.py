# SPDX-License-Identifier: Apache-2.0
"""The driver `qemu`: a virtual machine that rdd runs itself (docs/qemu.md).

Methods import what they need when they are called: an agent must stay small and the command
line fast.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rdd.vm.drivers.protocol import (
    Availability,
    Driver,
    DriverContext,
    ProgramSource,
    ShellCommand,
    ShellRequest,
)
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template.model import Template

if TYPE_CHECKING:
    from rdd.fetch.network import Network
    from rdd.vm.drivers.storage_protocol import Storage

__all__ = ["PROVIDER"]


class QemuProvider:
    """Implements `DriverProvider`, `AgentDriven`, `KubernetesSupport` and `HasStorage`."""

    name = "qemu"

    def availability(
        self, environment: Mapping[str, str], template: Template | None = None
    ) -> Availability:
        """Return whether qemu and ssh are installed; the template does not matter."""
        import os

        from rdd.vm.drivers.qemu.programs import INSTALL, find, install_command

        arch = os.uname().machine.replace("arm64", "aarch64")
        for program in (f"qemu-system-{arch}", "qemu-img"):
            if find(program, environment) is None:
                reason = f"{program} is missing"
                return Availability(
                    "qemu", usable=False, reason=reason, fix=INSTALL, command=install_command()
                )
        for program in ("ssh", "ssh-keygen"):
            if find(program, environment) is None:
                fix = "install the OpenSSH client"
                return Availability("qemu", usable=False, reason=f"{program} is missing", fix=fix)
        return Availability("qemu", usable=True)

    def make_driver(self, context: DriverContext) -> Driver:
        from rdd.vm.drivers.qemu.driver import QemuDriver

        return QemuDriver(context)

    async def prepare(
        self,
        directory: InstanceDirectory,
        template: Template,
        *,
        environment: Mapping[str, str],
        progress: Callable[[str], None],
        network: "Network",
    ) -> None:
        from rdd.vm.drivers.qemu.preparation import prepare

        await prepare(
            directory, template, environment=environment, progress=progress, network=network
        )

    def shell(
        self, directory: InstanceDirectory, template: Template, request: ShellRequest
    ) -> ShellCommand:
        from rdd.vm.drivers.qemu.shell import shell_command

        return shell_command(directory, template, request)

    async def cleanup(self, directory: InstanceDirectory) -> None:
        from rdd.vm.drivers.qemu.teardown import cleanup

        await cleanup(directory)

    def missing_kubernetes(self, release: str, environment: Mapping[str, str]) -> str:
        from rdd.vm.drivers.kubernetes_files import missing_release

        return missing_release(release, environment)

    def kubernetes_files(
        self, release: str, environment: Mapping[str, str]
    ) -> Sequence[ProgramSource]:
        from rdd.vm.drivers.kubernetes_files import missing_files

        return missing_files(release, environment)

    def storage(self, directory: InstanceDirectory) -> "Storage":
        from rdd.vm.drivers.qemu.storage import QemuStorage

        return QemuStorage(directory)


PROVIDER = QemuProvider()
