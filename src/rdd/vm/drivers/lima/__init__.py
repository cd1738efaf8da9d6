# SPDX-License-Identifier: Apache-2.0
"""The driver `lima`: limactl does the work, where it is installed and we are not root.

Directories, pid files and events are Lima's own, so everything else treats such a machine like
any other. `limactl hostagent` takes the command line of our host agent and is started in its
place (`agent_command`): there is no agent of ours, and no `Driver` object. What such an agent
cannot do is to let go of its machine; a daemon that comes back after a crash ends it and
starts the machine again.

limactl refuses to run as root, so for root this driver is not usable.
"""

from collections.abc import Callable, Mapping, Sequence

from rdd.host.errors import HostError
from rdd.vm.drivers.protocol import Availability, Driver, Setting, ShellCommand
from rdd.vm.instances import InstanceDirectory
from rdd.vm.template.model import Template

__all__ = ["agent_command", "availability", "cleanup", "driver", "prepare", "shell"]


def availability(environment: Mapping[str, str]) -> Availability:
    """Whether limactl is installed and would run."""
    from rdd.vm.drivers.lima import limactl

    reason, fix = limactl.refusal(environment)
    return Availability("lima", usable=not reason, reason=reason, fix=fix)


def agent_command(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What is started in place of our host agent. Raises HostError without limactl.

    Our own agents are started with the signals that stop them blocked, until they can deal
    with them. limactl would pass that on to the emulator, so the mask is cleared on the way.
    """
    import sys

    from rdd.vm.drivers.lima import limactl

    code = (
        "import os, signal, sys; signal.pthread_sigmask(signal.SIG_SETMASK, ()); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return (sys.executable, "-I", "-S", "-c", code, limactl.program(environment), "hostagent")


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
    from rdd.vm.drivers.lima import creating

    await creating.create(directory, environment=environment, progress=progress)


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
    """`limactl shell`."""
    from rdd.vm.drivers.lima import limactl

    options = [*(["--shell", shell] if shell else []), *(["--workdir", workdir] if workdir else [])]
    argv = (limactl.program(environment), "shell", *options, directory.name, *command)
    return ShellCommand(argv, limactl.environment_for(directory, environment))


async def cleanup(directory: InstanceDirectory) -> None:
    """End by force what still runs, and remove what it left."""
    import os

    from rdd.vm.drivers.lima import limactl

    if directory.agent() is None and directory.driver_process() is None:
        return
    await limactl.run(
        "stop", "--force", directory.name, directory=directory, environment=os.environ
    )
