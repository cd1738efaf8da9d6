# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm start`: a virtual machine runs."""

from rdd.cli import limavm_object as limavm
from rdd.cli.progress import shown
from rdd.cli.types import Call


def run(call: Call) -> int:
    """Start a virtual machine and wait until it runs."""
    (name,) = call.args
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        written = limavm.patch(connection, vm, {"spec": {"running": True}})
        if call.flags.truth("wait"):
            limavm.wait(
                call,
                connection,
                written,
                limavm.unless_revoked(
                    written, lambda vm: limavm.speaks_of(vm, written) and limavm.is_running(vm)
                ),
                until="running",
                progress=progress,
            )
    return 0
