# SPDX-License-Identifier: Apache-2.0
"""The programs of qemu: where they are, which version, and running the short ones.

`qemu-img` is run for what is done to disks while no machine uses them. Its errors name the
file, and are passed on as they are.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from rdd.host import commands
from rdd.host.errors import HostError

_ELSEWHERE = ("/usr/libexec", "/usr/lib/qemu", "/opt/homebrew/bin", "/usr/local/bin")
_TIMEOUT_S = 600.0  # copying a large disk takes its time
INSTALL = "install qemu: apt-get install qemu-system-x86 qemu-utils, or brew install qemu"


def find(name: str, environment: Mapping[str, str]) -> Path | None:
    """A program; None if it is not installed."""
    return commands.find(name, environment, also=_ELSEWHERE)


def system_program(arch: str, environment: Mapping[str, str]) -> Path:
    """The emulator for an architecture. Raises HostError."""
    name = f"qemu-system-{arch}"
    found = find(name, environment)
    if found is None:
        raise HostError(f"{name} is not installed; {INSTALL}")
    return found


async def run(*command: str | Path, timeout_s: float = _TIMEOUT_S) -> str:
    """Run a program; what it prints. Raises HostError with its last words."""
    answer = await commands.run(*command, timeout_s=timeout_s, remedy=INSTALL)
    return answer.checked(f"{Path(command[0]).name} {command[1]}")


async def version(program: Path) -> str:
    """The version of the emulator, e.g. `7.2.22`. Raises HostError."""
    text = await run(program, "--version", timeout_s=20)
    match = re.search(r"version (\S+)", text)
    return match[1] if match else text.strip()
