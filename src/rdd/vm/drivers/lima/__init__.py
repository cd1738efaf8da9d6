# SPDX-License-Identifier: Apache-2.0
"""The driver `lima`: limactl does the work, where it is installed and we are not root.

Directories, pid files and events are Lima's own, so everything else treats such a machine like
any other. There is no agent of ours: `limactl start --foreground` makes everything ready for this
start and then becomes Lima's host agent, without another process in between. It stays alive when
the daemon ends, and the next daemon goes on following it. What Lima's agent cannot do is take
over a virtual machine whose agent was killed: that one is ended and started again.

The functions are those of `rdd.vm.drivers.protocol.DriverPackage`; each loads what it needs when
it is called. docs/lima-driver.md
"""

from collections.abc import Callable, Mapping, Sequence

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import AgentCommand, Availability, Driver, Setting, ShellCommand
from rdd.vm.instances import InstanceDirectory
from rdd.vm.template.model import Template

__all__ = [
    "agent_command",
    "availability",
    "availability_for",
    "cleanup",
    "driver",
    "prepare",
    "shell",
]

START_S = 60.0
"""From the start of limactl to its pid file: it may have to make a disk larger before."""


def availability(environment: Mapping[str, str]) -> Availability:
    """Whether limactl is installed, new enough, and would run for this user."""
    from rdd.vm.drivers.lima.refusals import availability

    return availability(environment)


def availability_for(environment: Mapping[str, str], template: Template) -> Availability:
    """The same, and whether Lima can run this kind of machine here."""
    from rdd.vm.drivers.lima.refusals import availability_for

    return availability_for(environment, template)


def agent_command(directory: InstanceDirectory, environment: Mapping[str, str]) -> AgentCommand:
    """What is started in place of our host agent. Raises HostError without limactl."""
    from rdd.vm.drivers.lima import limactl

    words = (*limactl.command(environment), "start", "--foreground", directory.name)
    return AgentCommand(words, START_S)


def driver(setting: Setting) -> Driver:
    """There is none: limactl runs a host agent of its own. Raises HostError."""
    raise HostError(
        f'machine "{setting.directory.name}" is run by limactl, which has its own host agent'
    )


async def prepare(
    directory: InstanceDirectory,
    template: Template,
    *,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
) -> None:
    """Have limactl make the instance, with its image and disk."""
    from rdd.vm.drivers.lima.preparation import prepare

    await prepare(directory, environment=environment, progress=progress)


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
    """`limactl shell`, which finds out by itself whether it has a terminal."""
    from rdd.vm.drivers.lima import limactl

    options = [*(["--shell", shell] if shell else []), *(["--workdir", workdir] if workdir else [])]
    words = ["--", *command] if command else []
    argv = (limactl.program(environment), "shell", *options, directory.name, *words)
    return ShellCommand(argv, limactl.environment_for(directory, environment))


async def cleanup(directory: InstanceDirectory) -> None:
    """End by force what still runs, and remove what it left."""
    from rdd.vm.drivers.lima.teardown import cleanup

    await cleanup(directory)
