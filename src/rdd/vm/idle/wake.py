# SPDX-License-Identifier: Apache-2.0
"""Wakes a paused machine before something enters it that its host agent does not see."""

from rdd.host.errors import HostError
from rdd.vm.agent import client
from rdd.vm.instance_dir import InstanceDirectory

WAKE_S = 90.0


async def wake(directory: InstanceDirectory) -> None:
    """Wake a machine, and return when it runs; its idle time starts again. Raises HostError.

    A no-op without idle detection.
    """
    if not (directory.paused.exists() or directory.idle_settings.exists()):
        return
    try:
        await client.wake(directory.ha_sock, timeout_s=WAKE_S)
    except client.NoAnswer as error:
        if not directory.paused.exists():
            return
        raise HostError(
            f'machine "{directory.name}" is paused, and its host agent does not wake it up: {error}'
        ) from error
