# SPDX-License-Identifier: Apache-2.0
"""Wait for the machines that a snapshot has stopped, or that were created from one."""

from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.cli.commands.app.object import APP
from rdd.cli.commands.app.settling import wait_until_settled
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.connection import conditions_of, get_or_none
from rdd.cli.framework.progress import Progress
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rdd.client.blocking import Connection


def wait_continued(
    call: Call, connection: "Connection", machines: "Iterable[str]", progress: Progress
) -> None:
    """Return when machines exist and, as far as they should, run again. Raises CommandError."""
    for name in machines:
        vm = limavm.find_or_none(connection, name)
        if vm is not None:
            limavm.wait(call, connection, vm, _is_as_desired, until="ready", progress=progress)
    app = get_or_none(connection, APP)
    if app is not None and names.APP_VM_NAME in machines:
        timeout_s = call.flags.seconds("timeout")
        wait_until_settled(call, connection, app, timeout_s=timeout_s, progress=progress)


def _is_as_desired(vm: Object) -> bool:
    if limavm.has_annotation(vm, names.HOLD) or limavm.has_annotation(vm, names.RESTORE_FROM):
        return False
    if (vm.get("status") or {}).get("heldBy"):
        return False
    if conditions_of(vm).get(names.CREATED, {}).get("status") != "True":
        return False
    return limavm.is_running(vm) or not vm["spec"].get("running")
