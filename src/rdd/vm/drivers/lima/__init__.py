# SPDX-License-Identifier: Apache-2.0
"""The driver `lima`: limactl runs the machine, where it is installed and rdd is not root.

Directories, pid files and events are Lima's own, so all other code treats such a machine like
any other. rdd runs no host agent for it: `limactl start --foreground` prepares the start and
then becomes Lima's host agent in the same process. That agent survives the end of the daemon,
and the next daemon follows it. Lima's agent cannot adopt a virtual machine whose agent was
killed: rdd ends such a machine and starts it again.

Methods import what they need when they are called. docs/lima-driver.md
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rdd.vm.drivers.protocol import (
    AgentCommand,
    Availability,
    ProgramSource,
    ShellCommand,
    ShellRequest,
)
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.template.model import Template

if TYPE_CHECKING:
    from rdd.fetch.network import Network

__all__ = ["PROVIDER"]


class LimaProvider:
    """Implements `DriverProvider`, `KubernetesSupport` and `ExternalAgent`."""

    name = "lima"

    def availability(
        self, environment: Mapping[str, str], template: Template | None = None
    ) -> Availability:
        from rdd.vm.drivers.lima.availability import lima_availability

        return lima_availability(environment, template)

    def agent_command(
        self, directory: InstanceDirectory, environment: Mapping[str, str]
    ) -> AgentCommand:
        from rdd.vm.drivers.lima.driver import agent_command

        return agent_command(directory, environment)

    async def prepare(
        self,
        directory: InstanceDirectory,
        template: Template,
        *,
        environment: Mapping[str, str],
        progress: Callable[[str], None],
        network: "Network",
    ) -> None:
        from rdd.vm.drivers.lima.preparation import prepare

        await prepare(directory, environment=environment, progress=progress)

    def shell(
        self, directory: InstanceDirectory, template: Template, request: ShellRequest
    ) -> ShellCommand:
        from rdd.vm.drivers.lima.driver import shell_command

        return shell_command(directory, request)

    async def cleanup(self, directory: InstanceDirectory) -> None:
        from rdd.vm.drivers.lima.teardown import cleanup

        await cleanup(directory)

    def missing_kubernetes(self, release: str, environment: Mapping[str, str]) -> str:
        from rdd.vm.drivers.kubernetes_files import missing_release

        return missing_release(release, environment)

    def kubernetes_files(
        self, release: str, environment: Mapping[str, str]
    ) -> Sequence[ProgramSource]:
        from rdd.vm.drivers.kubernetes_files import missing_files

        return missing_files(release, environment)


PROVIDER = LimaProvider()
