# SPDX-License-Identifier: Apache-2.0
"""`rdd limavm delete`: shut a virtual machine down and delete it with its disk.

Kubernetes does not store a grace period for custom resources. An annotation, written
before the deletion is requested, does, and survives a restart of the daemon.
"""

from typing import TYPE_CHECKING

from rdd.api import names
from rdd.api.types import Object
from rdd.base.gotext import quote
from rdd.cli.commands.limavm import object as limavm
from rdd.cli.framework.confirm import confirm
from rdd.cli.framework.connection import conditions_of, follow
from rdd.cli.framework.errors import TIMED_OUT, CommandError
from rdd.cli.framework.progress import Progress, shown
from rdd.cli.framework.types import Call

if TYPE_CHECKING:
    from rdd.client.blocking import Connection


def run(call: Call) -> int:
    (name,) = call.args
    grace = 0 if call.flags.truth("force") else call.flags.integer("grace-period")
    if grace < 0 and "grace-period" in call.flags.given and not call.flags.truth("force"):
        raise CommandError(f"--grace-period {grace} is negative; it is a number of seconds")
    with limavm.connection_for(call) as connection:
        vm = limavm.find(connection, name)
        confirm(call, goes(call, vm))
        with shown(call) as progress:
            _delete(call, connection, vm, grace, progress)
    return 0


def goes(call: Call, vm: Object) -> list[str]:
    """Return the lines that show what the deletion of a machine's disk removes."""
    from rdd.cli.commands.preview import fate, space

    name = vm["metadata"]["name"]
    paths = [call.instance.lima_home / name]
    used = space(paths)
    return [
        f"This deletes the machine {quote(name)} with everything in it, {used}.",
        fate(call, paths),
    ]


def _delete(
    call: Call, connection: "Connection", vm: Object, grace: int, progress: Progress
) -> None:
    name = vm["metadata"]["name"]
    options: Object = {"preconditions": {"uid": vm["metadata"]["uid"]}}
    skips = call.flags.truth("no-trash")
    if skips:  # a rejected deletion must not leave the annotation
        connection.request("DELETE", limavm.path_of(vm), body={**options, "dryRun": ["All"]})
    if skips != limavm.has_annotation(vm, names.SKIP_TRASH):
        change = "true" if skips else None
        limavm.patch(connection, vm, {"metadata": {"annotations": {names.SKIP_TRASH: change}}})
    if grace >= 0:
        limavm.patch(
            connection, vm, {"metadata": {"annotations": {names.DELETION_GRACE: str(grace)}}}
        )
        options["gracePeriodSeconds"] = grace
    connection.request("DELETE", limavm.path_of(vm), body=options)
    call.log.info(f"LimaVM {quote(name)} is being deleted")
    if call.flags.truth("wait"):
        _wait(call, connection, vm, progress)
        call.log.info(f"LimaVM {quote(name)} deleted")


def _wait(call: Call, connection: "Connection", vm: Object, progress: Progress) -> None:
    name, uid = vm["metadata"]["name"], vm["metadata"]["uid"]
    collection = limavm.collection_of(vm["metadata"]["namespace"])
    seen = ""
    progress.phase("deleted")
    for found in follow(connection, collection, name, deadline=limavm.deadline_of(call)):
        if found is None or found["metadata"]["uid"] != uid:
            return
        seen = conditions_of(found).get(names.RUNNING, {}).get("message", "")
        progress.phase("deleted", seen)
    raise CommandError(
        f"waiting for LimaVM {quote(name)} to be deleted: context deadline exceeded; {seen}",
        exit_code=TIMED_OUT,
    )
