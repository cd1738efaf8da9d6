# SPDX-License-Identifier: Apache-2.0
"""`rdd shell`: a command, or a shell, in the virtual machine of the App.

Needs no control plane: a machine that outlives a crash of the daemon can be looked into.
"""

from rdd.cli.app_object import VM_NAME
from rdd.cli.app_table import SHELL
from rdd.cli.errors import CommandError
from rdd.cli.limavm_shell import NotRunning, become, parse, shell_command
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Become a command in the virtual machine of the App."""
    parsed = parse(call, SHELL)
    if parsed is None:
        return 0
    flags, words = parsed
    try:
        made = shell_command(
            call, VM_NAME, words, shell=flags.text("shell"), workdir=flags.text("workdir")
        )
    except NotRunning:
        raise CommandError("the App is not running; `rdd start` starts it") from None
    return become(made)
