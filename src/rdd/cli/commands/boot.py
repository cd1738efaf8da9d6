# SPDX-License-Identifier: Apache-2.0
"""What a command shows while a machine is created and boots: download and boot steps."""

from collections.abc import Callable

from rdd.cli.framework.progress import Progress
from rdd.cli.framework.types import Call

_DOWNLOAD = "Downloading "


def boot_steps(call: Call, name: str) -> Callable[[], str]:
    """Return a function that returns the present boot step of a machine; empty without one."""
    home = call.instance.lima_home

    def step() -> str:
        from rdd.host.errors import HostError
        from rdd.vm.boot_steps import boot_step
        from rdd.vm.instance_dir import InvalidName, LimaHome

        try:
            return boot_step(LimaHome(home).directory(name))
        except (HostError, InvalidName, OSError):
            return ""

    return step


def report_download(call: Call, message: str, progress: Progress) -> bool:
    """Report what a creation downloads, its size and why, whatever the log level.

    Return whether it downloads.
    """
    if not message.startswith(_DOWNLOAD):
        return False
    with progress.aside():
        call.log.at_least("info").info(f"{message}: the image of the new virtual machine")
    return True
