# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm reset`: replace the disk by a new one from the template; its data is lost."""

from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.commands.limavm.delete import goes
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.progress import Progress, shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection


def run(call: Call) -> int:
    """Reset a virtual machine and wait until it is recreated and, if it should run, running."""
    (name,) = call.args
    with limavm.connection_for(call) as connection:
        vm = limavm.find(connection, name)
        confirm(call, goes(call, vm))
        with shown(call) as progress:
            _reset(call, connection, vm, progress)
    return 0


def _reset(call: Call, connection: "Connection", vm: Object, progress: Progress) -> None:
    before = limavm.starts(vm)
    change = limavm.annotation(names.RESET_REQUESTED)
    change["metadata"]["annotations"] |= limavm.trash_annotations(call)
    written = limavm.patch(connection, vm, change)

    def is_met(vm: Object) -> bool:
        if limavm.has_annotation(vm, names.RESET_REQUESTED):
            return False
        if vm["spec"].get("running"):
            return limavm.starts(vm) > before and limavm.is_running(vm)
        return conditions_of(vm).get(names.CREATED, {}).get("status") == "True"

    if call.flags.truth("wait"):
        limavm.wait(call, connection, written, is_met, until="reset", progress=progress)
