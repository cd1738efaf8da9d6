# SPDX-License-Identifier: Apache-2.0
"""Cleanup after a killed host agent of Lima: the virtual machine, locks, networks.

`limactl stop --force` ends processes, unlocks disks and stops unused networks. It runs only if
the machine has shared disks or networks, and a failure is not fatal: the processes are killed
here.
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
_STOP_TIMEOUT_S = 30.0


async def cleanup(directory: InstanceDirectory) -> None:
    """Kill what still runs and remove its traces. Raises HostError."""
    problems = await kill_all({directory.agent(), directory.driver_process()}, timeout_s=_KILL_S)
    if problems:
        raise HostError("; ".join(problems))
    if _has_shared_resources(directory):
        with suppress(HostError, TimeoutError):  # stale locks do not affect this machine
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await limactl.run(
                    "stop", "--force", directory.name, directory=directory, environment=os.environ
                )
    directory.remove_temporary_files()


def _has_shared_resources(directory: InstanceDirectory) -> bool:
    """Return whether the machine uses disks or networks that others may use, too."""
    try:
        template = directory.template()
    except (HostError, TemplateError):
        return False
    return bool(template.networks or template.additional_disks)
