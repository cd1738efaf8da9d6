# SPDX-License-Identifier: Apache-2.0
"""`rdd update`: newer versions of the tools and of rdd itself.

rdd is updated by the program that installed it, from the directory, file or URL that it was
installed from. Any other installation is left alone.
"""

import shlex
import shutil
import sys
from pathlib import Path

import rdd
from rdd.cli.commands.tools.own_installation import (
    PACKAGE,
    Installation,
    installation,
)
from rdd.cli.commands.tools.update import install_newer, newer, report
from rdd.cli.framework.confirm import agreed, is_interactive
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.host.spawn import run_foreground


def run(call: Call) -> int:
    found = newer(call)
    report(call, found)
    own = installation(Path(sys.prefix))
    can_update = _report_own(call, own)
    if call.flags.truth("check"):
        return 0
    install_newer(call, found)
    if own is not None and can_update:
        _update_own(call, own)
    return 0


def _report_own(call: Call, own: Installation | None) -> bool:
    """Print how rdd itself is updated; return whether there is something to update from."""
    version = rdd.__version__
    if own is None:
        call.out.write(
            f"rdd {version} was not installed by pipx or uv: update it as it was installed.\n"
        )
        return False
    if own.source:
        call.out.write(
            f"rdd {version} was installed by {own.program} from {own.source}: "
            f"`{shlex.join(own.command)}` installs what is there now\n"
        )
        return True
    call.out.write(
        f"rdd {version} was installed by {own.program} from an index of Python packages. It is not "
        f"updated from there: in the public index another project has the name {PACKAGE}.\n"
    )
    return False


def _update_own(call: Call, own: Installation) -> None:
    command = shlex.join(own.command)
    if not call.flags.truth("yes"):
        if not is_interactive():
            raise CommandError(f"rdd was not updated without consent; add --yes, or run: {command}")
        sys.stderr.write(f"Run {command}? [y/N] ")
        sys.stderr.flush()
        if not agreed():
            raise CommandError("not confirmed; rdd was not updated")
    program = shutil.which(own.command[0], path=call.environment.variables.get("PATH", ""))
    if program is None:
        raise CommandError(f"{own.program} is not on PATH; rdd was not updated")
    call.out.flush()
    status = run_foreground([program, *own.command[1:]])
    if status != 0:
        raise CommandError(f"{command} failed with exit status {status}")
    call.out.write(
        "A control plane that runs is of the old version until it is restarted: "
        "rdd service stop && rdd service start\n"
    )
