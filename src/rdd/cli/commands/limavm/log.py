# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm log`: print the host agent's log of the current run."""

from rdd.base.gotext import quote
from rdd.cli.commands.service.log import print_log
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    from rdd.vm.instance_dir import InvalidName, LimaHome

    (name,) = call.args
    try:
        home = LimaHome(call.instance.lima_home)
        directory = home.directory(name)
    except InvalidName as error:
        raise CommandError(str(error)) from None
    if not directory.exists():
        from rdd.cli.framework.suggestions import did_you_mean

        hint = did_you_mean(name, home.names()) or "`rdd limavm list` lists all"
        raise CommandError(f"virtual machine {quote(name)} has no directory; {hint}")
    path = directory.ha_stdout if call.flags.truth("stdout") else directory.ha_stderr
    print_log(call, path, follow=call.flags.truth("follow"))
    return 0
