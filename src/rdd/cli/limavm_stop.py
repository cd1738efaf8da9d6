# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm stop`: a virtual machine is shut down."""

from rdd.cli import limavm_object as limavm
from rdd.cli.progress import shown
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Stop a virtual machine and wait until it is stopped."""
    (name,) = call.args
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        written = limavm.patch(connection, vm, {"spec": {"running": False}})
        if call.flags.truth("wait"):
            limavm.wait(
                call,
                connection,
                written,
                lambda vm: limavm.speaks_of(vm, written) and limavm.is_stopped(vm),
                until="stopped",
                progress=progress,
            )
    return 0
