# SPDX-License-Identifier: Apache-2.0
"""The driver `host`: a machine without a virtual machine (docs/host-driver.md).

The functions are those of `rdd.vm.drivers.protocol.DriverPackage`. `driver` loads what only an
agent needs.
"""

from collections.abc import Callable, Mapping

from rdd.vm.drivers.host.availability import availability, availability_for
from rdd.vm.drivers.host.k3s import missing_k3s
from rdd.vm.drivers.host.shell import shell
from rdd.vm.drivers.host.teardown import cleanup
from rdd.vm.drivers.protocol import Driver, Setting
from rdd.vm.instances import InstanceDirectory
from rdd.vm.template.model import Template

__all__ = [
    "availability",
    "availability_for",
    "cleanup",
    "driver",
    "missing_k3s",
    "prepare",
    "shell",
]


def driver(setting: Setting) -> Driver:
    """The driver of one machine, for its agent."""
    from rdd.vm.drivers.host.driver import HostDriver

    return HostDriver(setting)


async def prepare(
    directory: InstanceDirectory,
    template: Template,
    *,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Nothing is needed: the engine makes its directories, and there is no image."""
