# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm reset`: replace the disk by a new one from the template; its data is lost."""

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    """Reset a virtual machine and wait until it is recreated and, if it should run, running."""
    (name,) = call.args
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        before = limavm.starts(vm)
        written = limavm.patch(connection, vm, limavm.annotation(names.RESET_REQUESTED))

        def is_met(vm: Object) -> bool:
            if limavm.has_annotation(vm, names.RESET_REQUESTED):
                return False
            if vm["spec"].get("running"):
                return limavm.starts(vm) > before and limavm.is_running(vm)
            return conditions_of(vm).get(names.CREATED, {}).get("status") == "True"

        if call.flags.truth("wait"):
            limavm.wait(call, connection, written, is_met, until="reset", progress=progress)
    return 0
