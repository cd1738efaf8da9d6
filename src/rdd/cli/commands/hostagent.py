# SPDX-License-Identifier: Apache-2.0
"""`rdd hostagent`: the host agent of a machine.

Replaces this process by `python -m rdd.vm.agent`: an agent runs as long as its machine and
must not keep the modules of the command line in memory.
"""

import sys

from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.types import Call
from rdd.host.signals import replace_process


def run(call: Call) -> int:
    from rdd.vm.agent.options import REFUSED

    flags = call.flags
    for name, reason in REFUSED.items():
        if name in flags.given:
            raise CommandError(reason)
    if not flags.text("socket"):
        raise CommandError("--socket is required; usage: rdd hostagent --socket FILE INSTANCE")
    command = [sys.executable, "-m", "rdd.vm.agent", "--socket", flags.text("socket")]
    if flags.text("pidfile"):
        command += ["--pidfile", flags.text("pidfile")]
    command += [f"--{name}" for name in ("debug", "progress") if flags.truth(name)]
    variables = dict(call.environment.variables)
    variables.setdefault("LIMA_HOME", str(call.instance.lima_home))
    call.out.flush()
    replace_process(command[0], [*command, *call.args], variables)
