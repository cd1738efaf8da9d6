# SPDX-License-Identifier: Apache-2.0
"""`rdd update`: newer versions of the tools and of rdd itself.

rdd is updated by the program that installed it: uv and pipx leave a file in the environment of
each program (`uv-receipt.toml`, `pipx_metadata.json`). Any other installation is left alone.
"""

import asyncio
import json
import shlex
import shutil
import sys
from pathlib import Path

import rdd
from rdd.cli.commands.tools.update import install_newer, newer, report
from rdd.cli.framework.confirm import agreed, is_interactive
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.fetch.failures import FetchError
from rdd.host.spawn import run_foreground

_PACKAGE = "rdd"
_INDEX = f"https://pypi.org/pypi/{_PACKAGE}/json"
_INSTALLERS = {
    "uv-receipt.toml": ("uv", ("uv", "tool", "upgrade", _PACKAGE)),
    "pipx_metadata.json": ("pipx", ("pipx", "upgrade", _PACKAGE)),
}


def run(call: Call) -> int:
    found = newer(call)
    report(call, found)
    command = _report_own(call)
    if call.flags.truth("check"):
        return 0
    install_newer(call, found)
    if command:
        _update_own(call, command)
    return 0


def installer(prefix: Path) -> tuple[str, tuple[str, ...]] | None:
    """Return the program that installed an environment, and the command that updates rdd there."""
    return next((found for name, found in _INSTALLERS.items() if (prefix / name).is_file()), None)


def _report_own(call: Call) -> tuple[str, ...]:
    """Print whether rdd itself can be updated; return the command that does."""
    found = installer(Path(sys.prefix))
    if found is None:
        call.out.write(
            f"rdd {rdd.__version__} was not installed by pipx or uv: update it as it was "
            "installed.\n"
        )
        return ()
    name, command = found
    latest = _latest_of_index(call)
    if latest == rdd.__version__:
        call.out.write(f"rdd {rdd.__version__} is up to date.\n")
        return ()
    call.out.write(
        f"rdd {latest} is available (installed: {rdd.__version__}, by {name}): "
        f"{shlex.join(command)}\n"
    )
    return command


def _latest_of_index(call: Call) -> str:
    from rdd.cli.commands.tools.update import network_of
    from rdd.fetch.small import read_small

    try:
        page = asyncio.run(read_small(_INDEX, network=network_of(call), limit_bytes=16 << 20))
        return str(json.loads(page.content)["info"]["version"])
    except FetchError as error:
        raise CommandError(f"cannot look for a newer rdd: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f'"{_INDEX}" is not the page of a package: {error!r}') from error


def _update_own(call: Call, command: tuple[str, ...]) -> None:
    if not call.flags.truth("yes"):
        if not is_interactive():
            raise CommandError(
                f"rdd was not updated without consent; add --yes, or run: {shlex.join(command)}"
            )
        sys.stderr.write(f"Run {shlex.join(command)}? [y/N] ")
        sys.stderr.flush()
        if not agreed():
            raise CommandError("not confirmed; rdd was not updated")
    program = shutil.which(command[0], path=call.environment.variables.get("PATH", ""))
    if program is None:
        raise CommandError(f"{command[0]} is not on PATH; rdd was not updated")
    call.out.flush()
    status = run_foreground([program, *command[1:]])
    if status != 0:
        raise CommandError(f"{shlex.join(command)} failed with exit status {status}")
    call.out.write("The running control plane is of the old version until it is restarted:\n")
    call.out.write("  rdd service stop && rdd service start\n")
