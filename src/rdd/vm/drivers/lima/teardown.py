# SPDX-License-Identifier: Apache-2.0
"""What Lima leaves when its host agent was killed: the virtual machine, locks, networks.

limactl itself knows best: `limactl stop --force` ends processes, unlocks disks and stops networks
that nobody uses any more. It is asked only where there are such things, and it need not be there:
processes are ended here.
"""

import asyncio
import os
from contextlib import suppress

from rdd.host.errors import HostError
from rdd.vm.drivers.lima import limactl
from rdd.vm.instance_dir import InstanceDirectory
from rdd.vm.lifecycle.kill import kill_all
from rdd.vm.template import TemplateError

_KILL_S = 10.0
_TIDY_S = 30.0


async def cleanup(directory: InstanceDirectory) -> None:
    """End what still runs, and remove what it left. Raises HostError."""
    problems = await kill_all({directory.agent(), directory.driver_process()}, timeout_s=_KILL_S)
    if problems:
        raise HostError("; ".join(problems))
    if _shares(directory):
        with suppress(HostError, TimeoutError):  # nothing of it keeps this machine from anything
            async with asyncio.timeout(_TIDY_S):
                await limactl.run(
                    "stop", "--force", directory.name, directory=directory, environment=os.environ
                )
    directory.remove_temporary_files()


def _shares(directory: InstanceDirectory) -> bool:
    """Whether the machine uses what others may use too."""
    try:
        template = directory.template()
    except (HostError, TemplateError):
        return False
    return bool(template.networks or template.additional_disks)
