# SPDX-License-Identifier: Apache-2.0
"""The programs of qemu: paths, versions, and execution of short-running ones.

`qemu-img` operates on disks of stopped machines. Its error messages name the file and are
passed on unchanged.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rdd.host import commands
from rdd.host.errors import FailureReason, HostError
from rdd.vm.drivers.protocol import as_root

_EXTRA_DIRECTORIES = ("/usr/libexec", "/usr/lib/qemu", "/opt/homebrew/bin", "/usr/local/bin")
_TIMEOUT_S = 600.0  # copying a large disk takes long
INSTALL = "install qemu: apt-get install qemu-system-x86 qemu-utils, or brew install qemu"


def install_command() -> str:
    """Return the command that installs qemu on this kind of host."""
    if sys.platform == "darwin":
        return "brew install qemu"
    return as_root("apt-get install -y qemu-system-x86 qemu-utils")


def find(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return the path of a program; None if it is not installed."""
    return commands.find(name, environment, also=_EXTRA_DIRECTORIES)


def system_program(arch: str, environment: Mapping[str, str]) -> Path:
    """Return the emulator for an architecture. Raises HostError."""
    name = f"qemu-system-{arch}"
    found = find(name, environment)
    if found is None:
        raise HostError(
            f"{name} is not installed; {INSTALL}",
            reason=FailureReason.NOT_INSTALLED,
            remedy=install_command(),
        )
    return found


async def run(*command: str | Path, timeout_s: float = _TIMEOUT_S) -> str:
    """Run a program; return its output. Raises HostError with its last errors."""
    answer = await commands.run(*command, timeout_s=timeout_s, remedy=INSTALL)
    return answer.checked(f"{Path(command[0]).name} {command[1]}")


async def version(program: Path) -> str:
    """Return the version of the emulator, e.g. `7.2.22`. Raises HostError."""
    text = await run(program, "--version", timeout_s=20)
    match = re.search(r"version (\S+)", text)
    return match[1] if match else text.strip()
