# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm restart`: a virtual machine is shut down and started again."""

from rdd.cli import limavm_object as limavm
from rdd.cli.progress import shown
from rdd.cli.types import Call

REQUESTED = "lima.rancherdesktop.io/restartRequested"


def run(call: Call) -> int:
    """Restart a virtual machine, or start it, and wait until it has come up once more."""
    (name,) = call.args
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        before = limavm.starts(vm)
        change = {**limavm.annotation(REQUESTED), "spec": {"running": True}}
        written = limavm.patch(connection, vm, change)
        if call.flags.truth("wait"):
            limavm.wait(
                call,
                connection,
                written,
                limavm.unless_revoked(
                    written,
                    lambda vm: (
                        limavm.starts(vm) > before
                        and limavm.is_running(vm)
                        and not limavm.has_annotation(vm, REQUESTED)
                    ),
                ),
                until="restarted",
                progress=progress,
            )
    return 0
