# SPDX-License-Identifier: Apache-2.0
"""`rdd shell`: run a command or a shell in the virtual machine of the App.

Works without a control plane, so a machine that survived a crash of the daemon stays
accessible.
"""

from rdd.api import names
from rdd.cli.commands.app.declarations import SHELL
from rdd.cli.commands.limavm.shell import NotRunning, become, parse, shell_command
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    parsed = parse(call, SHELL)
    if parsed is None:
        return 0
    flags, words = parsed
    try:
        made = shell_command(
            call, names.APP_VM_NAME, words, shell=flags.text("shell"), workdir=flags.text("workdir")
        )
    except NotRunning:
        raise CommandError("the App is not running; `rdd start` starts it") from None
    return become(made)
