# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm restart`: restart a virtual machine."""

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Restart or start a virtual machine and wait for the start."""
    (name,) = call.args
    change = {**limavm.annotation(names.RESTART_REQUESTED), "spec": {"running": True}}
    limavm.change_and_wait(
        call, name, change, _has_come_up, until="restarted", requested="restart requested"
    )
    return 0


def _has_come_up(vm: Object, before: Object) -> bool:
    return (
        limavm.starts(vm) > limavm.starts(before)
        and limavm.is_running(vm)
        and not limavm.has_annotation(vm, names.RESTART_REQUESTED)
    )
