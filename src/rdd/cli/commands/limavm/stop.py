# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm stop`: stop a virtual machine."""

from rdd.api import names
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.commands.limavm.suspend import suspend
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    (name,) = call.args
    if call.flags.truth("suspend"):
        suspend(call, name)
        return 0
    limavm.change_and_wait(
        call,
        name,
        # Clear an earlier suspend request that failed.
        {"metadata": {"annotations": {names.STOP_MODE: None}}, "spec": {"running": False}},
        lambda vm, before: limavm.is_stopped(vm),
        until="stopped",
        requested="stopped",
    )
    return 0
