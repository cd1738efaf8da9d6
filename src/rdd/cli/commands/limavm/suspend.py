# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm suspend`: save the memory of a virtual machine and stop it.

A suspend is a stop with an annotation for the mode. If the driver cannot suspend the
machine, it keeps running; the command then reverts the request and reports the reason.
"""

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.connection import conditions_of
from rdd.cli.framework.errors import CommandError
from rdd.cli.framework.progress import shown
from rdd.cli.framework.types import Call


def run(call: Call) -> int:
    (name,) = call.args
    suspend(call, name)
    return 0


def suspend(call: Call, name: str) -> None:
    """Suspend a virtual machine. Raises CommandError if it keeps running."""
    with limavm.connection_for(call) as connection, shown(call) as progress:
        vm = limavm.find(connection, name)
        if not limavm.is_running(vm):
            raise CommandError(f"LimaVM {quote(name)} is not running")
        change = {
            "metadata": {"annotations": {names.STOP_MODE: "suspend"}},
            "spec": {"running": False},
        }
        written = limavm.patch(connection, vm, change)
        if not call.flags.truth("wait"):
            return

        def is_over(vm: Object) -> bool:
            return limavm.covers(vm, written) and (limavm.is_stopped(vm) or bool(_refusal(vm)))

        found = limavm.wait(
            call, connection, written, is_over, until="suspended", progress=progress
        )
        if refusal := _refusal(found):
            undo = {"metadata": {"annotations": {names.STOP_MODE: None}}, "spec": {"running": True}}
            limavm.patch(connection, vm, undo)
            raise CommandError(f"LimaVM {quote(name)} keeps running: {refusal}")


def _refusal(vm: Object) -> str:
    """Return why the machine was not suspended; empty if it was."""
    running = conditions_of(vm).get(names.RUNNING, {})
    return running.get("message", "") if running.get("reason") == "StopFailed" else ""
