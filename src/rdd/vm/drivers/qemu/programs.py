# SPDX-License-Identifier: Apache-2.0
"""The programs of qemu: where they are, which version, and running the short ones.

`qemu-img` is run for what is done to disks while no machine uses them. Its errors name the
file, and are passed on as they are.
"""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from rdd.host.errors import HostError

_ELSEWHERE = ("/usr/libexec", "/usr/lib/qemu", "/opt/homebrew/bin", "/usr/local/bin")
_TIMEOUT_S = 600.0  # copying a large disk takes its time
INSTALL = "install qemu: apt-get install qemu-system-x86 qemu-utils, or brew install qemu"


def find(name: str, environment: Mapping[str, str]) -> Path | None:
    """A program; None if it is not installed."""
    path = os.pathsep.join([environment.get("PATH", "/usr/bin:/bin"), *_ELSEWHERE])
    found = shutil.which(name, path=path)
    return Path(found) if found else None


def system_program(arch: str, environment: Mapping[str, str]) -> Path:
    """The emulator for an architecture. Raises HostError."""
    name = f"qemu-system-{arch}"
    found = find(name, environment)
    if found is None:
        raise HostError(f"{name} is not installed; {INSTALL}")
    return found


def run_now(*command: str | Path, timeout_s: float = _TIMEOUT_S) -> str:
    """Run a program; what it prints. Raises HostError with its last words."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
    except FileNotFoundError:
        raise HostError(f"{words[0]} is not installed; {INSTALL}") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"{words[0]} did not end within {timeout_s:g} s") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit status {done.returncode}"
        name = f"{Path(words[0]).name} {words[1]}" if words[0].endswith("-img") else words[0]
        raise HostError(f"{name}: {' / '.join(said.splitlines()[-2:])}")
    return done.stdout


async def run(*command: str | Path, timeout_s: float = _TIMEOUT_S) -> str:
    """The same without blocking the loop."""
    return await asyncio.to_thread(run_now, *command, timeout_s=timeout_s)


async def version(program: Path) -> str:
    """The version of the emulator, e.g. `7.2.22`. Raises HostError."""
    text = await run(program, "--version", timeout_s=20)
    match = re.search(r"version (\S+)", text)
    return match[1] if match else text.strip()
