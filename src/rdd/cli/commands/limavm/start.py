# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm start`: start a virtual machine."""

from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    (name,) = call.args
    limavm.change_and_wait(
        call,
        name,
        {"spec": {"running": True}},
        lambda vm, before: limavm.is_running(vm),
        until="running",
        requested="started",
    )
    return 0
