# SPDX-License-Identifier: Apache-2.0
"""Running limactl: where it is, why it would refuse, what it said when it failed.

It writes log lines (`time="…" level=fatal msg="…"`) to stderr; the message of the last one is why
it failed.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress

from rdd.host.errors import HostError
from rdd.vm.instances import InstanceDirectory

_MESSAGE = re.compile(r'\bmsg="((?:[^"\\]|\\.)*)"')
_LINE_LIMIT_BYTES = 1 << 20


def refusal(environment: Mapping[str, str]) -> tuple[str, str]:
    """Why limactl cannot be used, and what changes that; empty when it can."""
    if _find(environment) is None:
        return "limactl is not installed", "install Lima: https://lima-vm.io/docs/installation/"
    if os.geteuid() == 0:
        return "limactl refuses to run as root", "run rdd as an ordinary user"
    return "", ""


def program(environment: Mapping[str, str]) -> str:
    """The path of limactl. Raises HostError."""
    found = _find(environment)
    if found is None:
        raise HostError("limactl is not installed")
    return found


def _find(environment: Mapping[str, str]) -> str | None:
    return shutil.which("limactl", path=environment.get("PATH", ""))


def environment_for(directory: InstanceDirectory, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the LIMA_HOME of a machine."""
    return {**environment, "LIMA_HOME": str(directory.path.parent)}


def message_of(line: str) -> str:
    """What a log line says."""
    match = _MESSAGE.search(line)
    if match is None:
        return line.strip()
    try:
        return str(json.loads(f'"{match[1]}"'))
    except ValueError:
        return match[1]


async def run(
    *arguments: str,
    directory: InstanceDirectory,
    environment: Mapping[str, str],
    progress: Callable[[str], None] = lambda line: None,
) -> None:
    """Run a subcommand to its end; each thing it says goes to `progress`.

    Cancelling ends it. Raises HostError with its last words.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            program(environment),
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment_for(directory, environment),
            start_new_session=True,
            limit=_LINE_LIMIT_BYTES,
        )
    except OSError as error:
        raise HostError.from_os("start limactl", error) from error
    assert process.stderr is not None
    last = ""
    try:
        async for raw in process.stderr:
            text = message_of(raw.decode(errors="replace"))
            if text:
                last = text
                progress(text)
        status = await process.wait()
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
    if status != 0:
        raise HostError(f"limactl {arguments[0]}: {last or f'exit status {status}'}")
