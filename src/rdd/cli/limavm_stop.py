# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm stop`: a virtual machine is shut down."""

from rdd.cli import limavm_object as limavm
from rdd.cli.limavm_suspend import STOP_MODE, suspend
from rdd.cli.progress import shown
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Stop a virtual machine and wait until it is stopped."""
    (name,) = call.args
    if call.flags.truth("suspend"):
        suspend(call, name)
        return 0
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        # A wish to suspend that was refused must not stand in the way.
        change = {"metadata": {"annotations": {STOP_MODE: None}}, "spec": {"running": False}}
        written = limavm.patch(connection, vm, change)
        if call.flags.truth("wait"):
            limavm.wait(
                call,
                connection,
                written,
                limavm.unless_revoked(
                    written, lambda vm: limavm.speaks_of(vm, written) and limavm.is_stopped(vm)
                ),
                until="stopped",
                progress=progress,
            )
    return 0
