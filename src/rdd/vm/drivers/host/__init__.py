# SPDX-License-Identifier: Apache-2.0
"""The driver `host`: a machine without a virtual machine (docs/host-driver.md).

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

__all__ = ["PROVIDER"]


class HostProvider:
    """Implements `DriverProvider`, `AgentDriven`, `KubernetesSupport` and `LimitsSupport`."""

    name = "host"

    def availability(
        self, environment: Mapping[str, str], template: Template | None = None
    ) -> Availability:
        from rdd.vm.drivers.host.availability import DEFAULT_ENGINE, engine_availability
        from rdd.vm.drivers.host.services import engine_of, with_engine

        if template is None:
            return engine_availability(DEFAULT_ENGINE, environment)
        return engine_availability(engine_of(template), with_engine(environment, template))

    def make_driver(self, context: DriverContext) -> Driver:
        from rdd.vm.drivers.host.driver import HostDriver

        return HostDriver(context)

    async def prepare(
        self,
        directory: InstanceDirectory,
        template: Template,
        *,
        environment: Mapping[str, str],
        progress: Callable[[str], None],
        network: "Network",
    ) -> None:
        """Refuse limits that this host cannot enforce. Raises HostError."""
        from rdd.host.cgroups import Layout
        from rdd.host.errors import HostError
        from rdd.vm.drivers.host.limits import missing_limits, wanted_limits

        reason = missing_limits(template, Layout.read(environment))
        if wanted_limits(template) and reason:
            raise HostError(f"cpus and memory cannot be limited on this host: {reason}")

    def shell(
        self, directory: InstanceDirectory, template: Template, request: ShellRequest
    ) -> ShellCommand:
        from rdd.vm.drivers.host.shell import shell_command

        return shell_command(directory, template, request)

    async def cleanup(self, directory: InstanceDirectory) -> None:
        from rdd.vm.drivers.host.teardown import cleanup

        await cleanup(directory)

    def thaw(self, directory: InstanceDirectory) -> None:
        from rdd.vm.drivers.host.teardown import thaw

        thaw(directory)

    def missing_kubernetes(self, release: str, environment: Mapping[str, str]) -> str:
        from rdd.vm.drivers.host.k3s import missing_k3s

        return missing_k3s(release, environment)

    def kubernetes_files(
        self, release: str, environment: Mapping[str, str]
    ) -> Sequence[ProgramSource]:
        from rdd.vm.drivers.host.k3s import k3s_files

        return k3s_files(release, environment)

    def missing_limits(self, environment: Mapping[str, str]) -> str:
        from rdd.host.cgroups import Layout

        return Layout.read(environment).reason


PROVIDER = HostProvider()
